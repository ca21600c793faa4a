//! How the connection goes on after a command.
use super::{command::Command, command_error::CommandError, pending_read::PendingRead, session::Outstanding};
use crate::source::LocalFuture;

/// What came of a command.
pub enum Flow {
    /// Its reply is in the output.
    Done,
    /// A read that waits for flights; its reply comes when [`PendingRead::poll`] says so.
    Pending(PendingRead),
    /// This command goes to the source with others of its client: let it [`join`](super::begin::join) them, and the session hold this until they
    /// are answered.
    Relay(&'static Command, Outstanding),
    /// The [outstanding](Outstanding) commands of this client must be answered first. Begin this one again afterwards.
    Behind,
    /// This command must run alone, once everything before it is answered: call [`run`](super::begin::run) with the same arguments.
    Alone(&'static Command),
    /// Its reply is in the output, and from now on commands may have to wait (CLIENT PAUSE).
    Paused,
    /// Its reply is in the output; close after sending it.
    Close,
    /// It is of another protocol, which is named: close without a word.
    ForeignProtocol(&'static str),
}

/// What comes of a command that had to wait.
pub(super) type Later<'a> = LocalFuture<'a, Result<Flow, CommandError>>;

/// May a command go to the source with others?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// It does.
    Yes,
    /// Not with these, which are answered first: slow commands travel apart from others.
    Not,
    /// With none.
    Alone,
}
