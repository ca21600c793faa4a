//! What a protocol does with the bytes of one client.
use super::command_input::{BufferPool, CommandInput};
use crate::{app::Worker, clients::Client, gate::Door};
use larder_base::{
    buffers::{ClientProtocol, HeldBytes},
    telemetry::{Counter, Counters},
};
use larder_engine::Millis;
use larder_proto::output::Output;
use larder_ring::replica::ReplicaRequest;
use std::{
    future::Future,
    sync::Arc,
    task::{Context, Poll},
};

/// What the connection does next. `C`: a command that runs alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow<C> {
    /// The reply is in the output. After a turn: there is more to process, but other connections get
    /// their turn first.
    Done,
    /// The reply comes later, and has its place among the waiting replies.
    Waits,
    /// The client's outstanding commands must be answered first. Then the command begins again.
    Behind,
    /// The command runs alone, when every command before it is answered.
    Alone(C),
    /// Commands may have to wait until a pause is over (CLIENT PAUSE).
    Paused,
    /// The input is used up, except for a partial command that lacks at least `more` bytes.
    Input {
        /// At least 1.
        more: usize,
    },
    /// Too many bytes are unsent, or too many reads wait. Continue when there are fewer.
    Full,
    /// Send the output, then close.
    Close,
    /// Send the output, then the connection is the stream of a replica
    /// ([`Protocol::take_replica`]).
    Replicate,
}

/// Where the bytes of a protocol are counted.
pub struct ByteCounters<'c> {
    /// Bytes read from clients.
    pub bytes_in: &'c Counter,
    /// Bytes written to clients.
    pub bytes_out: &'c Counter,
}

/// One client's connection without its socket: commands in, replies out, in order.
pub trait Protocol {
    /// A command that must run alone.
    type Alone: Copy + PartialEq;
    /// For the log.
    const NAME: &'static str;
    /// Where its clients come in.
    const DOOR: Door;
    /// Whose buffers they are.
    const BUFFERS: ClientProtocol;

    /// Where its bytes are counted.
    fn counters(counters: &Counters) -> ByteCounters<'_>;
    /// An error that ends the connection, as the client expects errors.
    fn error(text: &str) -> String;

    /// The client as other clients see it.
    fn client(&self) -> &Arc<Client>;
    /// The bytes that the client has sent.
    fn input(&mut self) -> &mut CommandInput;
    /// The bytes to send to the client.
    fn out(&mut self) -> &mut Output;

    /// Processes commands until the input is used up or a step stops it. Does not wait and does not
    /// write: the replies are in [`out`](Protocol::out).
    fn process(&mut self, worker: &Worker, pool: &BufferPool, now: Millis) -> Flow<Self::Alone>;
    /// Runs the command at which [`process`](Protocol::process) stopped. No reply waits.
    fn run_alone(&mut self, worker: &Worker, command: Self::Alone) -> impl Future<Output = Flow<Self::Alone>>;
    /// Whether a reply waits for the source.
    fn is_waiting(&self) -> bool;
    /// Moves the replies that are ready, and the output after them, to [`out`](Protocol::out). Ready
    /// if there were any.
    fn poll_waiting(&mut self, worker: &Worker, cx: &mut Context<'_>) -> Poll<()>;
    /// The memory that the connection occupies between two turns.
    fn holding(&self) -> HeldBytes;
    /// Whether all replies are sent, so that an error may be written now.
    fn owes_nothing(&self) -> bool;
    /// Whether too many bytes are unsent or too many reads wait.
    fn is_full(&self) -> bool;

    /// Whether an upstream keeps state for the client, and may send push messages to it.
    fn has_upstream_state(&self) -> bool {
        false
    }
    /// Moves push messages of the upstream to the output. Ready if there were any; with
    /// `false`, the connection must end.
    fn poll_upstream(&mut self, _: &Worker, _: &mut Context<'_>) -> Poll<bool> {
        Poll::Pending
    }
    /// Moves the push messages from the client's inbox to the end of its output.
    fn take_pushes(&mut self, _: &Worker) {}
    /// Writes the push that asks the client to move.
    fn tell_to_move(&mut self, _: &Worker) {}
    /// What the client asked for before [`Flow::Replicate`].
    fn take_replica(&mut self) -> Option<Box<ReplicaRequest>> {
        None
    }
}
