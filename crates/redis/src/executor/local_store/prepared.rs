//! What commands that run together have loaded: a scratch tier, or nothing if all of them are plain
//! `SET key value`. A scratch tier takes longer than the rest of such a command. Its reply and its
//! change follow from its arguments alone.
use super::scratch::{Scratch, wanted};
use crate::{
    command::Command,
    command_context::CommandContext,
    command_outcome::{CommandError, Done},
    command_queue::CommandQueue,
};
use bytes::Bytes;
use larder_core::read::{Group, KeyChanges, KeyGuard};
use larder_engine::Millis;
use larder_proto::resp::Args;
use larder_source::{LocalFuture, SourceError};
use larder_store::{StoredValue, clock};
use std::rc::Rc;

/// Commands on locked keys, ready to run.
pub(super) enum Prepared {
    /// Plain SETs, with the changes that they make together.
    Sets(KeyChanges, Millis),
    Any(Scratch),
}

impl Prepared {
    /// Locks the keys of the commands, and loads what they need. `max_value`: the longest value that
    /// a SET may store.
    pub(super) fn load(
        group: &Rc<Group>,
        queue: &CommandQueue,
        max_value: usize,
    ) -> LocalFuture<'static, Result<(Rc<KeyGuard>, Prepared), SourceError>> {
        let group = group.clone();
        let is_plain = |(command, args): (&Command, Args<'_>)| is_plain_set(command, args, max_value);
        if !group.publishes_events() && queue.iter().all(is_plain) {
            let changes = changes_of_sets(queue.iter().map(|(_, args)| args));
            return Box::pin(async move {
                let held = group.hold(changes.iter().map(|(key, _)| key)).await?;
                Ok((held, Prepared::Sets(changes, clock::now())))
            });
        }
        let wanted = wanted(&group, queue.iter());
        Box::pin(async move {
            let held = group.hold(wanted.iter().map(|wanted| &wanted.key)).await?;
            let scratch = Scratch::load(&group, wanted).await?;
            Ok((held, Prepared::Any(scratch)))
        })
    }
    /// The moment at which the commands run.
    pub(super) fn now(&self) -> Millis {
        match self {
            Prepared::Sets(_, now) => *now,
            Prepared::Any(scratch) => scratch.now,
        }
    }
    pub(super) fn run(&mut self, call: &mut CommandContext<'_>) -> Done {
        match self {
            Prepared::Sets(..) => call.ok(),
            Prepared::Any(scratch) => scratch.run(call),
        }
    }
    pub(super) fn changes(self) -> KeyChanges {
        match self {
            Prepared::Sets(changes, _) => changes,
            Prepared::Any(scratch) => scratch.changes(),
        }
    }
}

/// Answers a plain SET at once, if the store can write it without waiting. Returns whether it did.
/// No command of the client is ahead.
pub(super) fn set_now(call: &mut CommandContext<'_>) -> Result<bool, CommandError> {
    if !is_plain_set(call.command, call.args, call.worker.app.settings.max_value) {
        return Ok(false);
    }
    let value = StoredValue::string(Bytes::copy_from_slice(&call.args[2]), None);
    match call.group().commit_now(&call.args[1], Some(value), call.session.actor()) {
        None => return Ok(false),
        Some(done) => done?,
    }
    call.reply.ok();
    Ok(true)
}

pub(super) fn is_plain_set(command: &Command, args: Args<'_>, max_value: usize) -> bool {
    command.name == "set" && args.len() == 3 && args[2].len() <= max_value
}

fn changes_of_sets<'a>(sets: impl Iterator<Item = Args<'a>>) -> KeyChanges {
    let change = |args: Args<'a>| {
        let [key, value] = [1, 2].map(|at| Bytes::copy_from_slice(&args[at]));
        (key, Some(StoredValue::string(value, None)))
    };
    let mut changes: KeyChanges = sets.map(change).collect();
    changes.reverse();
    // A stable sort: the last one of each key comes first.
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    changes.dedup_by(|next, first| next.0 == first.0);
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_lookup::find;

    #[test]
    fn the_last_set_of_a_key_counts() {
        let mut queue = CommandQueue::default();
        let set = find(b"set").expect("a command");
        for (key, value) in [("b", "1"), ("a", "2"), ("b", "3"), ("c", ""), ("a", "4")] {
            let bytes = format!("set{key}{value}");
            let end = bytes.len() as u32;
            queue.push(set, Args::new(bytes.as_bytes(), &[0..3, 3..4, 4..end]));
        }
        let changes = changes_of_sets(queue.iter().map(|(_, args)| args));
        let changes: Vec<(&[u8], &[u8])> =
            changes.iter().map(|(key, to)| (&key[..], &to.as_ref().expect("a value").value[..])).collect();
        assert_eq!(changes, [(&b"a"[..], &b"4"[..]), (b"b", b"3"), (b"c", b"")]);
    }
}
