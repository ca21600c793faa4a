//! MONITOR in front of a Redis. Redis shows the commands that it gets. Larder adds the commands
//! that it answers itself, in the same form.
use super::{
    command::{Command, CommandKind, Flags},
    command_outcome::Flow,
    session::Session,
};
use larder_core::app::Worker;
use larder_proto::resp::Args;
use larder_store::clock;
use std::fmt::Write as _;

/// Shows a command that Larder answered, unless Redis would hide it.
#[cold]
pub(super) fn show(worker: &Worker, session: &Session, command: &Command, args: Args<'_>, flow: &Flow) {
    let answered = matches!(flow, Flow::Done | Flow::Close | Flow::Paused);
    let hidden =
        matches!(command.kind, CommandKind::Transaction(_)) || command.flags.has(Flags::ADMIN.with(Flags::NO_AUTH));
    if answered && !hidden && session.multi.is_none() && worker.groups.default().source.as_redis().is_some() {
        let line = worker.app.tables.backlog.count(line(session, args).into());
        worker.app.clients.monitors().show(&line, &worker.app.tables.backlog);
    }
}

fn line(session: &Session, args: Args<'_>) -> String {
    let now = clock::since_epoch();
    let database = session.client.about.lock().database;
    let mut line = format!("+{}.{:06} [{database} {}]", now.as_secs(), now.subsec_micros(), session.client.peer);
    for part in args.from(0) {
        line.push_str(" \"");
        part.iter().for_each(|byte| quote(&mut line, *byte));
        line.push('"');
    }
    line.push_str("\r\n");
    line
}

/// Quotes a byte like Redis (`sdscatrepr`).
fn quote(to: &mut String, byte: u8) {
    match byte {
        b'\\' | b'"' => to.extend(['\\', char::from(byte)]),
        b'\n' => to.push_str("\\n"),
        b'\r' => to.push_str("\\r"),
        b'\t' => to.push_str("\\t"),
        7 => to.push_str("\\a"),
        8 => to.push_str("\\b"),
        b' '..=b'~' => to.push(char::from(byte)),
        // Writing to a string cannot fail.
        _ => drop(write!(to, "\\x{byte:02x}")),
    }
}
