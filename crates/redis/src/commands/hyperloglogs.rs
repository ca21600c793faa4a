//! PFADD, PFCOUNT and PFMERGE: HyperLogLogs, which are strings.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done},
    commands::{bits::read_string, increments::counter_expiry, strings::check_string},
};
use larder_core::read::KeyEvent;
use larder_engine::{Change, Entry, Tier};
use larder_proto::hyperloglog::{self, HyperLogLog, Invalid, Union};

impl From<Invalid> for CommandError {
    fn from(invalid: Invalid) -> CommandError {
        CommandError::Static(match invalid {
            Invalid::Other => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            Invalid::Corrupt => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}

/// The value of an entry in the scratch buffer, or a new one.
fn copy<'s>(entry: Option<&Entry<'_>>, scratch: &'s mut Vec<u8>) -> Result<HyperLogLog<'s>, CommandError> {
    check_string(entry)?;
    match entry {
        Some(entry) => Ok(HyperLogLog::copy(entry.value.as_bytes(), scratch)?),
        None => Ok(HyperLogLog::create(scratch)),
    }
}

/// Changes the HyperLogLog of the first key. `change` says whether it did. A new one is a change.
fn change(
    call: &CommandContext<'_>,
    tier: &mut Tier<'_>,
    change: impl FnOnce(&mut HyperLogLog<'_>) -> Result<bool, Invalid>,
) -> Result<bool, CommandError> {
    let (changed, is_new) = tier.update(call.key(1), call.now, |entry, scratch| {
        let changed = copy(entry, scratch).and_then(|mut value| Ok(change(&mut value)? || entry.is_none()));
        match changed.and_then(|changed| call.check_len(scratch.len()).map(|()| changed)) {
            Err(fault) => (Change::Keep, Err(fault)),
            Ok(false) => (Change::Keep, Ok((false, false))),
            Ok(true) => (Change::Put(counter_expiry(call, entry)), Ok((true, entry.is_none()))),
        }
    })??;
    if changed {
        call.note_written(KeyEvent::PfAdd, call.arg(1), is_new);
    }
    Ok(changed)
}

/// `PFADD key [element …]`
pub(crate) fn pfadd(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let mut elements = call.args.from(2);
    let changed =
        change(call, tier, |value| elements.try_fold(false, |changed, element| Ok(value.add(element)? || changed)))?;
    call.integer(i64::from(changed))
}

/// What all these keys have.
fn union(call: &CommandContext<'_>, tier: &mut Tier<'_>) -> Result<Union, CommandError> {
    let mut union = Union::default();
    for key in call.args.from(1) {
        read_string(call, tier, call.cache().key(key), |value| union.add(value))?.transpose()?;
    }
    Ok(union)
}

/// `PFCOUNT key [key …]`. Like Redis, it keeps the count of a single key in the value.
pub(crate) fn pfcount(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    if call.args.len() > 2 {
        let union = union(call, tier)?;
        return call.integer(union.count() as i64);
    }
    // A replica is a copy, a store that others change takes no write that demands no revision, and nodes
    // that share keys are told of no change by a command that reads.
    let group = call.group();
    let refuses_writes = call.worker.app.replication.refuses_writes(group.number);
    let is_kept = group.shared().is_none() && group.peers.is_none() && !refuses_writes;
    let count = tier.update(call.key(1), call.now, |entry, scratch| {
        let counted = check_string(entry).and_then(|()| {
            let Some(entry) = entry else { return Ok((0, false)) };
            let value = entry.value.as_bytes();
            match hyperloglog::known_count(value)? {
                Some(count) => Ok((count, false)),
                None => Ok((hyperloglog::count(value)?, is_kept)),
            }
        });
        match counted {
            Err(fault) => (Change::Keep, Err(fault)),
            Ok((count, false)) => (Change::Keep, Ok(count)),
            Ok((count, true)) => {
                scratch.extend_from_slice(&count.to_le_bytes());
                (Change::Part(hyperloglog::COUNT.start, hyperloglog::COUNT.end, None), Ok(count))
            }
        }
    })??;
    call.integer(count as i64)
}

/// `PFMERGE destination [source …]`. The destination is one of the sources.
pub(crate) fn pfmerge(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let union = union(call, tier)?;
    change(call, tier, |value| value.add_all(&union).map(|()| true))?;
    call.ok()
}
