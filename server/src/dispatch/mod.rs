//! The table of Redis commands: name, arity, flags, key positions, function.
use crate::{app::Worker, proto::output::Output, read::Fetch};
use larder_engine::Wait;

// Args<'_>: a borrowed command, from proto::resp.
// Session: state of one Redis connection (id, name, protocol 2|3, authenticated, MULTI queue, WATCHed keys or pinned upstream, CLIENT REPLY mode, lib name/ver …).

/// What came of a command.
pub enum Flow {
    /// Its reply is in the output.
    Done,
    /// A read that waits for flights: the connection resolves `slots` in order, then writes the reply.
    Pending(Pending),
    /// It must run alone, once everything before it is answered: call `run` (async).
    Alone,
    /// Reply is in the output; close after sending it.
    Close,
}
/// A read that waits.
pub struct Pending {
    /// `None` for a single bulk reply (GET), else the array's length is `slots.len()` (MGET)
    pub array: bool,
    /// In order.
    pub slots: Vec<Slot>,
}
/// One value of a waiting read.
pub enum Slot {
    /// Known already.
    Ready(Option<bytes::Bytes>),
    /// In flight.
    Wait(Wait),
}

// pub fn begin(worker: &Worker, session: &mut Session, args: &Args<'_>, now: Millis, out: &mut Output, batch: &mut Vec<Fetch>) -> Flow
//     synchronous; everything that can be answered without waiting is (all of `none:`), hits without allocation
// pub async fn run(worker: &Worker, session: &mut Session, args: &Args<'_>, out: &mut Output) -> Flow
//     the rest: commands that go to the source first
