//! Commands that Larder does not know: a Redis source may. They are sent on as they came; which keys they touch, the source's own
//! table of commands says.
use super::{
    call::Call,
    command::{Command, Flags, Keys, Run},
};
use crate::{
    app::Worker,
    source::{Commands, Known},
};
use larder_proto::resp::Args;
use std::sync::atomic::Ordering::Relaxed;

/// Stands for each of them.
pub(super) static FORWARDED: Command = Command {
    name: "forwarded",
    arity: -1,
    flags: Flags::NONE,
    keys: Keys { first: 0, last: 0, step: 0 },
    since: "",
    group: "",
    summary: "",
    run: Run::Forward,
    index: u16::MAX - 1,
    is_sub: false,
    is_parent: false,
};

/// What changes the connection that they are sent on, which is not the client's own.
const NOT_FORWARDED: [&[u8]; 5] = [b"asking", b"client", b"psync", b"replconf", b"sync"];

/// Does this command, which Larder does not know, go to the source?
pub(super) fn is_forwarded(worker: &Worker, args: &Args<'_>) -> bool {
    worker.groups[0].source.as_redis().is_some() && !NOT_FORWARDED.iter().any(|name| args[0].eq_ignore_ascii_case(name))
}

/// Shows others a forwarded command as its client's last one (CLIENT LIST). One that blocks is shown once Redis has it: who sees it may
/// unblock it.
pub(super) fn show(call: &Call<'_>) {
    if matches!(call.command.run, Run::Forward) {
        let client = &call.session.client;
        client.forwarded.set(&call.args[0], call.args.get(1));
        client.command.store(FORWARDED.index, Relaxed);
    }
}

/// What a command does at the source besides touching keys.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Reach {
    /// It may write any key.
    pub(super) everything: bool,
    /// It may wait for something to happen.
    pub(super) blocks: bool,
    /// It may keep the source busy for long.
    pub(super) slow: bool,
}

/// Gives each key that a command touches to `each`, and whether it may write it: by our table, or for one that is forwarded by the source's
/// (`None`: not known, nor then what it does). One that is not in there changes nothing: the source refuses it.
pub(super) fn touched<'a>(
    command: &Command,
    known: Option<&Commands>,
    args: Args<'a>,
    mut each: impl FnMut(&'a [u8], bool),
) -> Option<Reach> {
    if !matches!(command.run, Run::Forward) {
        let (writes, flushes) = (command.flags.has(Flags::WRITE), command.flags.has(Flags::FLUSH));
        command.keys.of(args).for_each(|key| each(key, writes));
        return Some(Reach { everything: flushes, blocks: false, slow: flushes || command.name == "keys" });
    }
    let known = known?;
    let Some(command) = known.find(args) else {
        return Some(Reach { everything: known.is_empty(), ..Reach::default() });
    };
    let keys = command.keys(args, |at, written| {
        if let Some(key) = args.get(at) {
            each(key, written);
        }
    });
    Some(Reach { everything: keys == Known::Everything, blocks: command.blocks(args), slow: command.is_slow() })
}
