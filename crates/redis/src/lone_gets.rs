//! A GET of a client without a session, which is a request of Redis over HTTP. What a session would
//! look at is looked at here. A GET that needs more than a read of the group is left to a session.
use super::{
    command_access::CommandAccess,
    command_lookup::GET,
    command_outcome::{CommandError, WRONG_TYPE_TEXT},
    command_rights,
    pending_read::fetched,
    slow_commands,
};
use bytes::Bytes;
use larder_base::{identity::User, telemetry::recorded_args};
use larder_config::Address;
use larder_core::{app::Worker, gate::Door, read::StartedRead};
use larder_engine::{Millis, Value, Wait};
use larder_source::{Fetch, is_document};
use std::time::{Duration, Instant};

/// What the reply to an absent key takes.
const NULL: usize = b"$-1\r\n".len();

/// Begins a GET of the default group. `user` is `None` where clients need not log in. A value that
/// is no string is the error of the reply. `None`: it needs a session, because something special is
/// on, or the key or the user needs a look.
#[inline]
pub fn begin<R>(
    (worker, access, user): (&Worker, &CommandAccess, Option<&User>),
    key: &[u8],
    now: Millis,
    batch: &mut Vec<Fetch>,
    read: impl FnOnce(Value<'_>) -> R,
) -> Option<StartedRead<Result<R, &'static str>>> {
    let may_get = |user: &User| {
        let permissions = user.permissions();
        permissions.is_unrestricted() || command_rights::check_get(permissions, key).is_ok()
    };
    let is_plain = worker.special(Door::Redis) == 0
        && worker.app.upstream_rights.is_none()
        && access.passes(GET)
        && key.len() <= worker.app.settings.max_key
        && user.is_none_or(may_get);
    if !is_plain {
        return None;
    }
    let commands = &worker.app.commands;
    let name = GET.name.len() + b"\r\n".len();
    commands.called(worker.id, GET.index, 1, name + bulk_len(key.len()) - b"\r\n".len());
    let group = worker.groups.default();
    let begun = group.begin(group.cache.key(key), now, batch, |entry| {
        if entry.has_attributes() && is_document(entry.metadata()) {
            return Err(WRONG_TYPE_TEXT);
        }
        commands.sent(worker.id, GET.index, bulk_len(entry.value.as_bytes().len()));
        Ok(read(entry.value))
    });
    match &begun {
        StartedRead::Absent => commands.sent(worker.id, GET.index, NULL),
        StartedRead::Hit(Err(text)) => note_failure(worker, text.as_bytes()),
        _ => {}
    }
    Some(begun)
}

/// The value for which a GET has waited since `begun`, or the error of the reply.
pub async fn end(
    worker: &Worker,
    (client, mut wait, begun): (Address, Wait, Instant),
) -> Result<Option<Bytes>, Vec<u8>> {
    let outcome = (&mut wait).await;
    let took = begun.elapsed();
    note_took(worker, 1, took);
    if worker.app.telemetry.slow.is_slow(took) {
        let args = recorded_args([&b"GET"[..], wait.key()].into_iter());
        slow_commands::note_of(worker, (client, "".into()), GET.index, took, args);
    }
    let value = fetched(&wait, outcome).map_err(|error| {
        let fault = CommandError::from(error);
        note_failure(worker, fault.text());
        // An error is one line.
        fault.text().iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect::<Vec<u8>>()
    })?;
    worker.app.commands.sent(worker.id, GET.index, value.as_ref().map_or(NULL, |value| bulk_len(value.len())));
    Ok(value)
}

fn note_failure(worker: &Worker, text: &[u8]) {
    worker.counters.redis_error(text);
    worker.app.commands.failed(worker.id, GET.index);
}

/// Notes that so many GETs took this long together.
#[inline]
pub fn note_took(worker: &Worker, gets: u32, took: Duration) {
    worker.app.commands.took(worker.id, GET.index, gets.into(), took);
}

/// Length of a string of so many bytes in the Redis protocol.
#[inline]
fn bulk_len(len: usize) -> usize {
    let digits = len.checked_ilog10().unwrap_or(0) as usize + 1;
    b"$\r\n\r\n".len() + digits + len
}
