//! Commands whose whole replies the reply cache may hold: answered from the memory tier, or fetched
//! into it. All others are forwarded.
use super::{
    command::{Command, CommandKind, Flags},
    command_context::CommandContext,
    command_outcome::{Done, Flow},
    pending_read::PendingRead,
    session::{Outstanding, Session},
    waiting_replies::Waits,
};
use larder_core::{app::Worker, read::StartedRead};
use larder_proto::resp::Args;
use larder_source::CacheableReply;

/// How the reply to this command is cached, if it may be.
pub(super) fn cacheable(worker: &Worker, args: Args<'_>, resp3: bool) -> Option<CacheableReply> {
    let group = worker.groups.default();
    let cacheable = group.source.as_redis()?.keeps_reply(args, resp3)?;
    let key = args.get(cacheable.key)?;
    let fits = key.len() <= worker.app.settings.max_key && group.keeps_reply_to(args);
    fits.then_some(cacheable)
}

/// Whether the command may begin while reads of the client wait for the source. It may if it is one
/// more cacheable read.
pub(super) fn joins_reads(worker: &Worker, session: &Session, command: &Command, args: Args<'_>) -> bool {
    let may_be_read = match command.kind {
        CommandKind::Forward => true,
        CommandKind::Tier => command.flags.has(Flags::READONLY),
        _ => false,
    };
    may_be_read
        && session.outstanding == Outstanding::Reads
        && session.dedicated.is_none()
        && !session.asks_upstream
        && session.multi.is_none()
        && cacheable(worker, args, session.resp3).is_some()
}

/// Begins a command that goes to a Redis source.
pub(super) fn begin(call: &mut CommandContext<'_>, waits: &mut Waits<'_>) -> Done {
    match cacheable(call.worker, call.args, call.reply.is_resp3()) {
        Some(cacheable) => Ok(begin_cached(call, cacheable, waits)),
        None => Ok(waits.forward(call, Outstanding::Forwarded)),
    }
}

/// Begins a command whose reply may be cached.
#[inline]
pub(super) fn begin_cached(call: &mut CommandContext<'_>, cacheable: CacheableReply, waits: &mut Waits<'_>) -> Flow {
    let (group, args) = (call.group(), call.args);
    let resp3 = call.reply.is_resp3();
    call.show_forwarded();
    let out = call.reply.output();
    let begun = group.begin_reply(args, cacheable, resp3, call.now, waits.batch, |reply| match reply.share() {
        Some(large) => out.put_shared(large),
        None => out.put(reply.as_bytes()),
    });
    match begun {
        StartedRead::Hit(()) => Flow::Done,
        StartedRead::Wait(wait) => waits.read(call, PendingRead::one(wait, resp3, true)),
        // The reply is cached when the command is asked again.
        StartedRead::Absent => waits.forward(call, Outstanding::Reads),
    }
}
