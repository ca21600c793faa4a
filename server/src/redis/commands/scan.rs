//! Iterating over the keyspace: SCAN, KEYS, RANDOMKEY.
use super::keys::type_name;
use crate::{
    redis::{
        command_context::CommandContext,
        command_error::{CURSOR, CommandError, CommandResult, SYNTAX, integer},
    },
    source::kind_of,
};
use larder_engine::Tier;
use larder_proto::{glob, output::Output, resp::Reply};
use larder_store::ValueKind;

/// Entries that SCAN visits without the option COUNT.
const COUNT: usize = 10;
/// Maximum entries that one SCAN visits. COUNT is a hint.
const MAX_COUNT: usize = 1 << 20;
/// Entries that KEYS visits while it holds one lock.
const STRIDE: usize = 4096;

/// The options of SCAN.
#[derive(Debug)]
pub(in crate::redis) struct Walk<'a> {
    /// Where the scan continues. 0: at the start.
    pub(in crate::redis) cursor: u64,
    /// The number of keys to visit.
    pub(in crate::redis) count: usize,
    pub(in crate::redis) pattern: Option<&'a [u8]>,
    /// TYPE: keys of other types do not match.
    pub(in crate::redis) typed: Option<&'a [u8]>,
}
impl<'a> Walk<'a> {
    /// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
    pub(in crate::redis) fn parse(call: &CommandContext<'a>) -> Result<Walk<'a>, CommandError> {
        let cursor = cursor(call.arg(1)).ok_or(CURSOR)?;
        let mut walk = Walk { cursor, count: COUNT, pattern: None, typed: None };
        let mut parts = call.args.from(2);
        while let Some(part) = parts.next() {
            let value = parts.next();
            match (part.to_ascii_lowercase().as_slice(), value) {
                (b"count", Some(value)) => {
                    walk.count = match integer(value)? {
                        ..1 => return Err(SYNTAX),
                        given => usize::try_from(given).unwrap_or(MAX_COUNT).min(MAX_COUNT),
                    };
                }
                (b"match", Some(value)) => walk.pattern = Some(value),
                (b"type", Some(value)) => walk.typed = Some(value),
                _ => return Err(SYNTAX),
            }
        }
        Ok(walk)
    }

    /// Whether this key, with a value of this kind, matches the options.
    pub(in crate::redis) fn takes(&self, key: &[u8], kind: ValueKind) -> bool {
        self.typed.is_none_or(|name| name.eq_ignore_ascii_case(type_name(kind).as_bytes()))
            && self.pattern.is_none_or(|pattern| glob::matches(pattern, key, false))
    }
}

/// SCAN
pub(in crate::redis) fn scan(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> CommandResult {
    let walk = Walk::parse(call)?;
    let mut found = WalkPage::default();
    let next = tier.scan(walk.cursor, walk.count, call.now, |entry| {
        if walk.takes(entry.key, kind_of(entry.metadata())) {
            found.push(entry.key);
        }
    });
    call.reply.array(2);
    call.reply.bulk_unsigned(next);
    found.reply(call);
    Ok(())
}

/// Parses like `strtoul`: a sign and leading zeros are allowed.
fn cursor(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    match text.strip_prefix('-') {
        Some(negative) if !negative.starts_with('+') => Some(negative.parse::<u64>().ok()?.wrapping_neg()),
        Some(_) => None,
        None if text.is_empty() => Some(0),
        None => text.parse().ok(),
    }
}

/// KEYS pattern
pub(in crate::redis) fn keys(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> CommandResult {
    let pattern = call.arg(1);
    let mut found = WalkPage::default();
    let mut cursor = 0;
    loop {
        cursor = tier.scan(cursor, STRIDE, call.now, |entry| {
            if glob::matches(pattern, entry.key, false) {
                found.push(entry.key);
            }
        });
        if cursor == 0 {
            break;
        }
    }
    found.reply(call);
    Ok(())
}

/// RANDOMKEY
pub(in crate::redis) fn randomkey(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> CommandResult {
    let seed = fastrand::u64(..);
    let reply = &mut call.reply;
    let found = tier.random(seed, call.now, |entry| reply.bulk(entry.key));
    if found.is_none() {
        reply.null();
    }
    Ok(())
}

/// Found keys. Their number is known only at the end.
#[derive(Debug, Default)]
pub(in crate::redis) struct WalkPage {
    keys: Output,
    count: usize,
}
impl WalkPage {
    pub(in crate::redis) fn push(&mut self, key: &[u8]) {
        // Bulk strings are the same in RESP2 and RESP3.
        Reply::new(&mut self.keys, false).bulk(key);
        self.count += 1;
    }
    pub(in crate::redis) fn reply(mut self, call: &mut CommandContext<'_>) {
        call.reply.array(self.count);
        call.reply.output().append(&mut self.keys);
    }
}
