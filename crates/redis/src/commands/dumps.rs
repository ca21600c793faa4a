//! DUMP and RESTORE of strings, in Redis's format.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, SYNTAX, TOO_LONG, integer},
    commands::{bits::read_string, strings::Lifetime},
};
use larder_core::read::KeyEvent;
use larder_engine::{Attributes, Condition, Expiry, Stored, Tier, Write};
use larder_store::rdb::{DumpError, Dumped, dump, read_dump};

const BUSY_KEY: CommandError = CommandError::Static("BUSYKEY Target key name already exists.");
const BAD_TTL: CommandError = CommandError::Static("ERR Invalid TTL value, must be >= 0");
const BAD_IDLE_TIME: CommandError = CommandError::Static("ERR Invalid IDLETIME value, must be >= 0");
const BAD_FREQUENCY: CommandError = CommandError::Static("ERR Invalid FREQ value, must be >= 0 and <= 255");
const BAD_SUM: CommandError = CommandError::Static("ERR DUMP payload version or checksum are wrong");
const BAD_FORMAT: CommandError = CommandError::Static("ERR Bad data format");
const OTHER_TYPE: CommandError =
    CommandError::Static("ERR Bad data format: Larder without a source restores strings alone");

/// DUMP key
pub(crate) fn dump_key(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    // A dump has the bytes of its value, and a few more.
    let dumped = |value: &[u8]| call.session.room.check(value.len() + 64).map(|()| dump(value));
    match read_string(call, tier, call.key(1), dumped)?.transpose()? {
        Some(bytes) => {
            call.reply_text(bytes);
            Ok(Flow::Done)
        }
        None => call.null(),
    }
}

/// `RESTORE key ttl value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`
pub(crate) fn restore(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let (mut condition, mut is_absolute) = (Condition::IfAbsent, false);
    let (mut has_idle_time, mut has_frequency) = (false, false);
    let mut parts = call.args.from(4);
    while let Some(part) = parts.next() {
        let is = |name: &str| part.eq_ignore_ascii_case(name.as_bytes());
        if is("REPLACE") {
            condition = Condition::Always;
        } else if is("ABSTTL") {
            is_absolute = true;
        } else if is("IDLETIME") && !has_frequency {
            // How a key was used elsewhere is not kept.
            has_idle_time = true;
            if integer(parts.next().ok_or(SYNTAX)?)? < 0 {
                return Err(BAD_IDLE_TIME);
            }
        } else if is("FREQ") && !has_idle_time {
            has_frequency = true;
            if !(0..=255).contains(&integer(parts.next().ok_or(SYNTAX)?)?) {
                return Err(BAD_FREQUENCY);
            }
        } else {
            return Err(SYNTAX);
        }
    }
    let key = call.key(1);
    if condition == Condition::IfAbsent && tier.peek(key, call.now, |_| ()).is_some() {
        return Err(BUSY_KEY);
    }
    let ttl = integer(call.arg(2))?;
    if ttl < 0 {
        return Err(BAD_TTL);
    }
    // A short dump may declare a long value: what the tier could never hold is not built.
    let (max_value, max_memory) = (call.worker.app.settings.max_value, tier.cache().max_memory());
    let value = match read_dump(call.arg(3), max_value.min(max_memory)) {
        Ok(Dumped::String(value)) => value,
        Ok(Dumped::TooLong) if max_memory < max_value => {
            return Err(CommandError::from(format!("OOM the value needs more than max-memory ({max_memory}) allows")));
        }
        Ok(Dumped::TooLong) => return Err(TOO_LONG),
        Ok(Dumped::Other) => return Err(OTHER_TYPE),
        Err(DumpError::Sum) => return Err(BAD_SUM),
        Err(DumpError::Damaged) => return Err(BAD_FORMAT),
    };
    let expiry = match ttl {
        0 => call.lifetime(call.arg(1)),
        _ => Expiry::At(Lifetime::millis(call.arg(2), !is_absolute).at(call.now, call.command.name)?),
    };
    let write = Write { value: &value, expiry, attributes: Attributes::NONE, condition };
    let has_ended = matches!(expiry, Expiry::At(at) if at <= call.now);
    match (tier.set(key, write, call.now)?, has_ended) {
        (Stored::Unmet, _) => return Err(BUSY_KEY),
        (Stored::Created(_), true) => {}
        (Stored::Replaced(_), true) => call.note_event(KeyEvent::Del, key.bytes()),
        // In Redis the key that was there is deleted first.
        (_, false) => call.note_written(KeyEvent::Restore, key.bytes(), true),
    }
    call.ok()
}
