//! Lifetimes: EXPIRE, TTL and related commands, PERSIST.
use super::strings::{check_latest, invalid_expire};
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, integer},
};
use larder_core::read::KeyEvent;
use larder_engine::{Change, Expiry, Millis, Tier};
use larder_store::clock;

/// NX XX GT LT
#[derive(Debug, Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}
impl Conditions {
    fn parse(call: &CommandContext<'_>) -> Result<Conditions, CommandError> {
        let mut conditions = Conditions::default();
        for part in call.args.from(3) {
            let c = &mut conditions;
            let flag = match part.to_ascii_lowercase().as_slice() {
                b"nx" => &mut c.nx,
                b"xx" => &mut c.xx,
                b"gt" => &mut c.gt,
                b"lt" => &mut c.lt,
                _ => return Err(CommandError::quoting("ERR Unsupported option ", part, usize::MAX, "")),
            };
            *flag = true;
        }
        match conditions {
            Conditions { nx: true, xx, gt, lt } if xx || gt || lt => {
                Err(CommandError::Static("ERR NX and XX, GT or LT options at the same time are not compatible"))
            }
            Conditions { gt: true, lt: true, .. } => {
                Err(CommandError::Static("ERR GT and LT options at the same time are not compatible"))
            }
            fine => Ok(fine),
        }
    }
    /// Whether the conditions allow `new` when the entry has `old`. An entry without expiry counts
    /// as never ending.
    fn allow(&self, old: Option<Millis>, new: i64) -> bool {
        let old = old.map(|old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.nx && old.is_some()
            || self.xx && old.is_none()
            || self.gt && old.is_none_or(|old| new <= old)
            || self.lt && old.is_some_and(|old| new >= old))
    }
}

/// From when a time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    Now,
    /// The Unix epoch, by the wall clock.
    Epoch,
}

/// `EXPIRE key time [NX | XX | GT | LT]` and related commands. The time counts in units of `unit`
/// milliseconds.
pub(crate) fn expire(call: &mut CommandContext<'_>, tier: &mut Tier<'_>, unit: i64, since: Since) -> Done {
    let conditions = Conditions::parse(call)?;
    let at = integer(call.arg(2))?
        .checked_mul(unit)
        .and_then(|time| time.checked_add_unsigned(if since == Since::Now { call.now } else { 0 }))
        .ok_or_else(|| invalid_expire(call.command.name))?;
    check_latest(at, call.command.name)?;
    let at = match Millis::try_from(at) {
        Ok(wall) if since == Since::Epoch => clock::of_wall(wall) as i64,
        _ => at,
    };
    let (key, now) = (call.key(1), call.now);
    let event = tier.update(key, now, |entry, _| match entry {
        Some(entry) if conditions.allow(entry.expiry(), at) => match Millis::try_from(at) {
            Ok(at) if at > now => (Change::Expire(Expiry::At(at)), Some(KeyEvent::Expire)),
            _ => (Change::Delete, Some(KeyEvent::Del)),
        },
        _ => (Change::Keep, None),
    })?;
    reply_changed(call, event)
}

/// Replies whether there was a change, and notes its event.
fn reply_changed(call: &mut CommandContext<'_>, event: Option<KeyEvent>) -> Done {
    event.into_iter().for_each(|event| call.note_event(event, call.arg(1)));
    call.integer(i64::from(event.is_some()))
}

pub(crate) fn persist(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let event = tier.update(call.key(1), call.now, |entry, _| match entry {
        Some(entry) if entry.expiry().is_some() => (Change::Expire(Expiry::Never), Some(KeyEvent::Persist)),
        _ => (Change::Keep, None),
    })?;
    reply_changed(call, event)
}

/// TTL and related commands: the entry's expiry in units of `unit` milliseconds, rounded like Redis;
/// -1 if it has none, -2 if there is no entry.
pub(crate) fn ttl(call: &mut CommandContext<'_>, tier: &mut Tier<'_>, unit: u64, since: Since) -> Done {
    let expiry = tier.peek(call.key(1), call.now, |entry| entry.expiry());
    call.reply.integer(match expiry {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => {
            let millis = if since == Since::Now { at.saturating_sub(call.now) } else { clock::to_wall(at) };
            (millis.saturating_add(unit / 2) / unit) as i64
        }
    });
    Ok(Flow::Done)
}
