//! EXEC at an upstream Redis: the queued commands go there as one MULTI … EXEC. Commands that
//! concern only Larder run here, in their places.
use crate::{
    command::{Command, CommandKind, Flags},
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow},
    command_queue::CommandQueue,
    command_times::row_of,
    commands::connection,
    executor::upstream::{
        effects::{Effects, Transacted},
        single_command::{checked, send_in_order},
    },
    forwarded_commands::{Apart, Reach},
    session::Watch,
    transaction::{self, TransactionReplies},
    upstream::{
        replies::{is_error, may_be_done},
        requests,
    },
};
use bytes::Bytes;
use larder_proto::resp::{View, view, write_command};
use larder_source::{RawReplies, SourceError};

pub(super) async fn exec(call: &mut CommandContext<'_>) -> Done {
    let queue = call.session.change().multi.take().unwrap_or_default().queue;
    let answered = send_queue(call, &queue).await;
    if let Ok((sent, _)) = &answered {
        note_databases(call, &queue, sent);
    }
    call.session.end_transaction();
    let (sent, transacted) = answered?;
    match transacted {
        Transacted::Done => reply(call, &queue, &sent?),
        // EXEC failed, or returned null because a watched key was written.
        Transacted::Not | Transacted::Unknown => {
            call.session.pass_part(sent?, call.reply.output());
            Ok(Flow::Done)
        }
    }
}

/// Sends the commands, and applies the answer to the memory tier.
async fn send_queue(
    call: &mut CommandContext<'_>,
    queue: &CommandQueue,
) -> Result<(Result<Bytes, SourceError>, Transacted), CommandError> {
    if queue.iter().any(|(command, _)| command.flags.has(Flags::SELECTS)) {
        requests::dedicate(call).await?;
    }
    let (mut effects, mut all) = (Effects::default(), Reach::default());
    let mut encoded = Vec::new();
    write_command(&mut encoded, [&b"MULTI"[..]].into_iter());
    let mut count = 2;
    for (command, args) in queue.iter().filter(|(command, _)| runs_upstream(command)) {
        write_command(&mut encoded, args.from(0));
        count += 1;
        let row = row_of(call.worker, command, args);
        call.worker.app.commands.called(call.worker.id, row, 1, args.span());
        let known = checked(call, command.kind, args).await?;
        let reach = effects.note(call, (command, args), known.as_deref(), |_| true).unwrap_or_default();
        all.everything |= reach.everything;
        all.slow |= reach.slow;
        all.busy = all.busy.max(reach.busy);
        all.touches_others |= reach.touches_others;
        all.publishes |= reach.publishes;
        all.apart = all.apart.max(reach.apart);
    }
    write_command(&mut encoded, [&b"EXEC"[..]].into_iter());
    all.apart = all.apart.max(Apart::of_size(encoded.len()));
    // Dropped once the effects are settled: until then the source stays what it is.
    let mut replies = None;
    let sent = match count == 2 && call.session.dedicated.is_none() {
        // No queued command concerns the upstream.
        true => Ok(Bytes::from_static(b"*0\r\n")),
        false => {
            let sent = send_in_order(call, encoded, count, &all).await;
            if sent.is_ok() && matches!(call.session.watch, Watch::Upstream) {
                // EXEC ended the watch, whatever its outcome.
                call.session.watch = Watch::Nothing;
            }
            call.session.skip_replies(count - 1, call.reply.output());
            sent.map(|sent| {
                let replies = replies.insert(sent);
                call.session.end_if_broken(replies);
                if replies.is_broken() { broken(replies) } else { replies.last() }
            })
        }
    };
    let transacted = match &sent {
        Ok(reply) if is_error(reply) => Transacted::Unknown,
        Ok(reply) if matches!(view(reply), Ok(View::Array(_))) => Transacted::Done,
        Ok(_) => Transacted::Not,
        Err(_) if may_be_done(&sent) => Transacted::Unknown,
        Err(_) => Transacted::Not,
    };
    effects.settle_transaction(transacted);
    if all.everything && transacted != Transacted::Not {
        call.group().flushed();
    }
    drop(replies);
    Ok((sent, transacted))
}

/// EXEC's reply in place of one that broke the protocol: the first error in it.
fn broken(replies: &RawReplies) -> Bytes {
    fn first_error<'r>(reply: View<'r>) -> Option<&'r [u8]> {
        match reply {
            View::Error(text) => Some(text),
            View::Array(mut values) => values.find_map(first_error),
            _ => None,
        }
    }
    let error = replies.iter().find_map(|reply| first_error(view(reply).ok()?));
    [b"-", error.unwrap_or(b"ERR the source's reply breaks the protocol"), b"\r\n"].concat().into()
}

/// Whether the upstream runs this command within a transaction.
fn runs_upstream(command: &Command) -> bool {
    command.is_data() || command.flags.has(Flags::SELECTS)
}

/// Notes the databases that SELECTs in a transaction selected.
fn note_databases(call: &mut CommandContext<'_>, queue: &CommandQueue, sent: &Result<Bytes, SourceError>) {
    if let Ok(reply) = sent
        && let Ok(View::Array(mut values)) = view(reply)
    {
        for (command, args) in queue.iter().filter(|(command, _)| runs_upstream(command)) {
            let Some(reply) = values.next_raw() else { return };
            if command.flags.has(Flags::SELECTS) {
                connection::note_database(call, args, reply);
            }
        }
    }
}

/// Writes the replies: those of the upstream, and those of the commands that run here.
fn reply(call: &mut CommandContext<'_>, queue: &CommandQueue, reply: &Bytes) -> Done {
    let Ok(View::Array(mut values)) = view(reply) else { return Err(requests::no_redis().into()) };
    call.reply.array(queue.len());
    let mut replies = TransactionReplies::default();
    for (command, args) in queue.iter() {
        match command.kind {
            CommandKind::Local if !runs_upstream(command) => replies.run(call, command, args, transaction::run_local),
            CommandKind::Transaction(_) => replies.run(call, command, args, transaction::unwatch),
            _ => match values.next_raw() {
                Some(raw) => call.session.pass_part(reply.slice_ref(raw), call.reply.output()),
                None => return Err(CommandError::Static("ERR source unavailable: short reply to EXEC")),
            },
        }
    }
    Ok(replies.flow())
}
