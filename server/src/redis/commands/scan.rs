//! Walking through the keyspace: SCAN, KEYS, RANDOMKEY.
use crate::redis::{
    command_context::CommandContext,
    command_error::{Answer, CURSOR, CommandError, SYNTAX, integer},
};
use larder_engine::Tier;
use larder_proto::{glob, output::Output, resp::Reply};

/// Entries that SCAN visits unless told otherwise.
const COUNT: usize = 10;
/// Most entries that one SCAN visits; COUNT is a hint.
const MAX_COUNT: usize = 1 << 20;
/// Entries that KEYS visits under one lock.
const STRIDE: usize = 4096;

/// What SCAN was asked for.
#[derive(Debug)]
pub(in crate::redis) struct Walk<'a> {
    /// Where to go on; 0: from the begin.
    pub(in crate::redis) cursor: u64,
    /// How many keys to look at.
    pub(in crate::redis) count: usize,
    pub(in crate::redis) pattern: Option<&'a [u8]>,
    /// Are strings wanted, which is all there are?
    typed: bool,
}
impl<'a> Walk<'a> {
    /// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
    pub(in crate::redis) fn parse(call: &CommandContext<'a>) -> Result<Walk<'a>, CommandError> {
        let cursor = cursor(call.arg(1)).ok_or(CURSOR)?;
        let mut walk = Walk { cursor, count: COUNT, pattern: None, typed: true };
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
                (b"type", Some(value)) => walk.typed = value.eq_ignore_ascii_case(b"string"),
                _ => return Err(SYNTAX),
            }
        }
        Ok(walk)
    }

    /// Is this key one of those that are wanted?
    pub(in crate::redis) fn takes(&self, key: &[u8]) -> bool {
        self.typed && self.pattern.is_none_or(|pattern| glob::matches(pattern, key, false))
    }
}

/// SCAN
pub(in crate::redis) fn scan(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Answer {
    let walk = Walk::parse(call)?;
    let mut found = WalkPage::default();
    let next = tier.scan(walk.cursor, walk.count, call.now, |entry| {
        if walk.takes(entry.key) {
            found.push(entry.key);
        }
    });
    call.reply.array(2);
    call.reply.bulk_unsigned(next);
    found.reply(call);
    Ok(())
}

/// As `strtoul` reads it: a sign and leading zeros are fine.
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
pub(in crate::redis) fn keys(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Answer {
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
pub(in crate::redis) fn randomkey(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Answer {
    let seed = fastrand::u64(..);
    let reply = &mut call.reply;
    let found = tier.random(seed, call.now, |entry| reply.bulk(entry.key));
    if found.is_none() {
        reply.null();
    }
    Ok(())
}

/// Keys found, of which the number is only known at the end.
#[derive(Debug, Default)]
pub(in crate::redis) struct WalkPage {
    keys: Output,
    count: usize,
}
impl WalkPage {
    pub(in crate::redis) fn push(&mut self, key: &[u8]) {
        // Bulk strings are the same in both protocols.
        Reply::new(&mut self.keys, false).bulk(key);
        self.count += 1;
    }
    pub(in crate::redis) fn reply(mut self, call: &mut CommandContext<'_>) {
        call.reply.array(self.count);
        call.reply.output().append(&mut self.keys);
    }
}
