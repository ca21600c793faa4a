//! What the connection does after a command.
use super::{command::Command, command_error::CommandError, pending_read::PendingRead, session::Outstanding};
use larder_ring::replica::ReplicaRequest;
use larder_source::LocalFuture;

/// The outcome of a command.
pub enum Flow {
    /// The reply is in the output.
    Done,
    /// A read waits for flights. [`PendingRead::poll`] says when its reply is ready.
    Pending(PendingRead),
    /// The command goes to the source together with other commands of its client:
    /// [`join`](super::begin_command::join) it to them. Until they are answered, the session's
    /// outstanding commands are these.
    Relay(&'static Command, Outstanding),
    /// The client's [outstanding](Outstanding) commands must be answered first. Begin this one
    /// again afterwards.
    Behind,
    /// The command must run alone, after every command before it is answered. Call
    /// [`run`](super::begin_command::run) with the same arguments.
    Alone(&'static Command),
    /// The reply is in the output. From now on commands may have to wait (CLIENT PAUSE).
    Paused,
    /// The reply is in the output. Close the connection after sending it.
    Close,
    /// The client is a replica that follows this process: after what was written before, the
    /// connection is the stream's.
    Replicate(Box<ReplicaRequest>),
    /// The request is of another protocol, which is named. Close the connection without a reply.
    ForeignProtocol(&'static str),
}

/// The outcome of a command that had to wait.
pub(super) type Later<'a> = LocalFuture<'a, Result<Flow, CommandError>>;

/// Whether a command goes to the source together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// The command has joined.
    Yes,
    /// The command has not joined: the others must be answered first. Slow commands travel apart
    /// from fast ones.
    Not,
    /// The command must run alone.
    Alone,
}
