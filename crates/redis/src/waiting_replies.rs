//! Replies that wait for the source, in the order of their commands.
use super::{
    command_context::CommandContext,
    command_outcome::{Done, Flow},
    executor::pipeline::ClientPipeline,
    pending_read::PendingRead,
    session::Outstanding,
};
use larder_proto::output::Output;
use larder_source::Fetch;

/// Where a command puts what it cannot answer at once.
pub struct Waits<'t> {
    /// The fetches of the turn's reads. They go to the source as one batch.
    pub batch: &'t mut Vec<Fetch>,
    /// The client's pipeline to the source, if more commands may join it.
    pub(super) open: Option<&'t mut ClientPipeline>,
    /// Whether the pipeline before this command is slow. `None`: there is none.
    pub(super) slow_before: Option<bool>,
    /// The reply of this command, if it is the first one that waits for a read or a new pipeline.
    pub(super) new: Option<(WaitingKind, Outstanding)>,
}

impl<'t> Waits<'t> {
    /// Behind the last waiting reply, if there is one, and whether no output stands behind it.
    pub(super) fn new(batch: &'t mut Vec<Fetch>, last: Option<(&'t mut WaitingKind, bool)>) -> Waits<'t> {
        let (open, slow_before) = match last {
            Some((WaitingKind::ClientPipeline(pipeline), is_last)) => {
                if is_last && pipeline.is_open() {
                    (Some(pipeline), None)
                } else {
                    (None, Some(pipeline.is_slow()))
                }
            }
            _ => (None, None),
        };
        Waits { batch, open, slow_before, new: None }
    }

    /// Runs GET or MGET.
    #[inline]
    pub(super) fn read_by<'c>(
        &mut self,
        call: &mut CommandContext<'c>,
        run: impl FnOnce(&mut CommandContext<'c>, &mut Vec<Fetch>, &mut Option<PendingRead>) -> Done,
    ) -> Done {
        let mut read = None;
        let flow = run(call, self.batch, &mut read)?;
        Ok(read.map_or(flow, |read| self.read(call, read)))
    }

    pub(super) fn read(&mut self, call: &CommandContext<'_>, mut read: PendingRead) -> Flow {
        if call.session.is_silent() {
            return Flow::Done;
        }
        read.timed = call.session.times.later(call.worker, call.args);
        self.new = Some((WaitingKind::Read(read), Outstanding::Reads));
        Flow::Waits
    }

    /// The command goes to the source with others of its client. Until they are answered, the
    /// session's outstanding commands are `outstanding`.
    pub(super) fn forward(&mut self, call: &CommandContext<'_>, outstanding: Outstanding) -> Flow {
        // A command without a reply runs alone: a pipeline would have to leave its reply out.
        if call.session.is_silent() {
            return Flow::Alone(call.command);
        }
        if let Some(open) = &mut self.open {
            return open.join(call);
        }
        let Some(mut pipeline) = ClientPipeline::of(call, self.slow_before) else { return Flow::Alone(call.command) };
        let flow = pipeline.join(call);
        if flow == Flow::Waits {
            self.new = Some((WaitingKind::ClientPipeline(pipeline), outstanding));
        }
        flow
    }
}

/// A reply that is not ready, and the output between it and the next one.
pub(super) struct WaitingReply {
    pub(super) what: WaitingKind,
    pub(super) after: Output,
}
pub(super) enum WaitingKind {
    Read(PendingRead),
    ClientPipeline(ClientPipeline),
}
impl WaitingKind {
    /// Bytes of forwarded commands.
    pub(super) fn bytes(&self) -> usize {
        match self {
            WaitingKind::Read(_) => 0,
            WaitingKind::ClientPipeline(together) => together.bytes(),
        }
    }
}
impl WaitingReply {
    pub(super) fn owned(&self) -> usize {
        self.after.owned()
            + match &self.what {
                WaitingKind::Read(read) => read.owned(),
                WaitingKind::ClientPipeline(together) => together.owned(),
            }
    }
    /// Bytes that it refers to. Forwarded commands are accounted for elsewhere.
    pub(super) fn referred(&self) -> usize {
        self.after.referred() + self.what.bytes()
    }
}
