//! Notes commands that took long for the slow log and the latency events.
use super::{
    command::{CommandKind, Flags, TransactionStep},
    command_lookup::COMMANDS,
};
use larder_base::telemetry::{SlowEntry, record_args};
use larder_config::Address;
use larder_core::{app::Worker, clients::Client};
use larder_proto::resp::Args;
use smallvec::SmallVec;
use std::{sync::Arc, time::Duration};

/// Shown in place of a secret, as in Redis.
const HIDDEN: &[u8] = b"(redacted)";

/// A command's arguments for the slow log, without secrets.
pub(super) fn shown_args(row: u16, args: Args<'_>) -> Box<[u8]> {
    let mut kept = Vec::with_capacity(64);
    show_args(&mut kept, row, args);
    kept.into_boxed_slice()
}

/// Writes what [`shown_args`] gives to the end of `kept`.
pub(super) fn show_args(kept: &mut Vec<u8>, row: u16, args: Args<'_>) {
    let secrets = Secrets::of(row, args);
    let shown: SmallVec<[&[u8]; 8]> =
        args.from(0).enumerate().map(|(at, arg)| if secrets.hide(at, args) { HIDDEN } else { arg }).collect();
    record_args(kept, shown.into_iter());
}

/// Which arguments of a command are secrets.
enum Secrets {
    None,
    From(usize),
    /// Values of parameters whose names say so.
    Values,
    /// What follows AUTH or AUTH2.
    AfterAuth,
}

impl Secrets {
    fn of(row: u16, args: Args<'_>) -> Secrets {
        let is = |name: &str| args.get(0).is_some_and(|arg| arg.eq_ignore_ascii_case(name.as_bytes()));
        match COMMANDS.get(usize::from(row)).map(|command| command.name) {
            Some("auth" | "larder.replicate") => Secrets::From(1),
            Some("acl|setuser") => Secrets::From(2),
            Some("hello") => Secrets::AfterAuth,
            Some("config|set") => Secrets::Values,
            None if is("migrate") => Secrets::AfterAuth,
            _ => Secrets::None,
        }
    }
    fn hide(&self, at: usize, args: Args<'_>) -> bool {
        let before = |back: usize| at.checked_sub(back).and_then(|at| args.get(at)).unwrap_or_default();
        let is = |arg: &[u8], name: &str| arg.eq_ignore_ascii_case(name.as_bytes());
        match self {
            Secrets::None => false,
            Secrets::From(first) => at >= *first,
            Secrets::Values => {
                let name = before(1).to_ascii_lowercase();
                let says = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
                at > 2 && at % 2 == 1 && (says(b"pass") || says(b"auth") || says(b"secret"))
            }
            Secrets::AfterAuth => {
                is(before(1), "auth") || is(before(1), "auth2") || is(before(2), "auth") || is(before(2), "auth2")
            }
        }
    }
}

/// Notes a command of this client.
#[cold]
pub(super) fn note(worker: &Worker, client: &Client, row: u16, took: Duration, args: Args<'_>) {
    note_recorded(worker, client, row, took, shown_args(row, args));
}

/// Like [`note`], with arguments that were recorded when the command began.
#[cold]
pub(super) fn note_recorded(worker: &Worker, client: &Client, row: u16, took: Duration, args: Box<[u8]>) {
    let name = client.about.lock().name.clone();
    note_of(worker, (client.peer.clone(), name), row, took, args);
}

/// Like [`note_recorded`], for a client with this address and name.
#[cold]
pub(super) fn note_of(worker: &Worker, (client, name): (Address, Arc<str>), row: u16, took: Duration, args: Box<[u8]>) {
    let command = COMMANDS.get(usize::from(row));
    // Its commands are noted one by one.
    if command.is_some_and(|command| command.kind == CommandKind::Transaction(TransactionStep::Exec)) {
        return;
    }
    let telemetry = &worker.app.telemetry;
    let entry = SlowEntry { id: 0, at: telemetry.time(), took, args: args.into(), client, name };
    let is_fast = command.is_some_and(|command| command.flags.has(Flags::FAST));
    telemetry.slow.note(entry, if is_fast { "fast-command" } else { "command" });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_lookup::{FoundCommand, find_for};

    fn shown(command: &str) -> String {
        let (mut text, mut ranges) = (String::new(), Vec::new());
        for word in command.split(' ') {
            let begin = text.len() as u32;
            text.push_str(word);
            ranges.push(begin..text.len() as u32);
        }
        let args = Args::new(text.as_bytes(), &ranges);
        let row = match find_for(args) {
            FoundCommand::Command(row) => row.index,
            _ => u16::MAX,
        };
        let recorded = String::from_utf8(shown_args(row, args).into()).expect("text");
        recorded.split("\r\n").skip(2).step_by(2).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn secrets_are_hidden() {
        for (command, expected) in [
            ("GET auth", "GET auth"),
            ("SET password secret", "SET password secret"),
            ("AUTH secret", "AUTH (redacted)"),
            ("auth user secret", "auth (redacted) (redacted)"),
            ("HELLO 3 AUTH user secret SETNAME me", "HELLO 3 AUTH (redacted) (redacted) SETNAME me"),
            ("ACL SETUSER bob on >secret", "ACL SETUSER (redacted) (redacted) (redacted)"),
            (
                "CONFIG SET maxmemory 1 requirepass secret masterauth x",
                "CONFIG SET maxmemory 1 requirepass (redacted) masterauth (redacted)",
            ),
            ("MIGRATE h 1 k 0 5 AUTH2 user secret", "MIGRATE h 1 k 0 5 AUTH2 (redacted) (redacted)"),
            ("LARDER.REPLICATE 1 a b c d", "LARDER.REPLICATE (redacted) (redacted) (redacted) (redacted) (redacted)"),
        ] {
            assert_eq!(shown(command), expected);
        }
    }
}
