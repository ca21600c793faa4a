//! Commands that Larder does not know: a Redis source may. They are sent on as they came; which keys they touch, the source's own
//! table of commands says.
use super::command::{Command, Flags, Keys, Run};
use crate::{
    app::Worker,
    proto::resp::Args,
    source::{Commands, Known},
};

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
    index: 0,
    is_sub: false,
    is_parent: false,
};

/// What changes the connection that they are sent on, which is not the client's own.
const NOT_FORWARDED: [&[u8]; 7] = [b"asking", b"client", b"config", b"psync", b"replconf", b"sync", b"command"];

/// Does this command, which Larder does not know, go to the source?
pub(super) fn is_forwarded(worker: &Worker, args: &Args<'_>) -> bool {
    worker.groups[0].source.as_redis().is_some() && !NOT_FORWARDED.iter().any(|name| args[0].eq_ignore_ascii_case(name))
}

/// What a command touches at the source.
#[derive(Debug, Default)]
pub(super) struct Touched<'a> {
    pub(super) written: Vec<&'a [u8]>,
    pub(super) read: Vec<&'a [u8]>,
    /// It may write any key.
    pub(super) everything: bool,
    /// It may wait for something to happen.
    pub(super) blocks: bool,
}

/// By the source's table. A command that is not in there changes nothing: the source refuses it.
pub(super) fn touched<'a>(commands: &Commands, args: Args<'a>) -> Touched<'a> {
    let mut touched = Touched { everything: commands.is_empty(), ..Touched::default() };
    if let Some(command) = commands.find(args) {
        let known = command.keys(args, |at, written| {
            if let Some(key) = args.get(at) {
                let keys = if written { &mut touched.written } else { &mut touched.read };
                keys.push(key);
            }
        });
        touched.everything |= known == Known::Everything;
        touched.blocks = command.blocks(args);
    }
    touched
}
