//! Walking through the keyspace: SCAN, KEYS, RANDOMKEY.
use crate::{
    dispatch::{
        call::Call,
        fault::{Answer, CURSOR, SYNTAX, integer},
        glob,
    },
    proto::{output::Output, resp::Reply},
};
use larder_engine::Tier;

/// Entries that SCAN visits unless told otherwise.
const COUNT: usize = 10;
/// Most entries that one SCAN visits; COUNT is a hint.
const MAX_COUNT: usize = 1 << 20;
/// Entries that KEYS visits under one lock.
const STRIDE: usize = 4096;

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
pub(in crate::dispatch) fn scan(call: &mut Call<'_>, tier: &mut Tier<'_>) -> Answer {
    let cursor = cursor(call.arg(1)).ok_or(CURSOR)?;
    let mut count = COUNT;
    let mut pattern = None;
    let mut of_type = None;
    let mut parts = call.args.from(2);
    while let Some(part) = parts.next() {
        let value = parts.next();
        match (part.to_ascii_lowercase().as_slice(), value) {
            (b"count", Some(value)) => {
                count = match integer(value)? {
                    ..1 => return Err(SYNTAX),
                    given => usize::try_from(given).unwrap_or(MAX_COUNT).min(MAX_COUNT),
                };
            }
            (b"match", Some(value)) => pattern = Some(value),
            (b"type", Some(value)) => of_type = Some(value),
            _ => return Err(SYNTAX),
        }
    }
    let typed = of_type.is_none_or(|name| name.eq_ignore_ascii_case(b"string"));
    let mut found = Found::default();
    let next = tier.scan(cursor, count, call.now, |entry| {
        if typed && pattern.is_none_or(|pattern| glob::matches(pattern, entry.key, false)) {
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
pub(in crate::dispatch) fn keys(call: &mut Call<'_>, tier: &mut Tier<'_>) -> Answer {
    let pattern = call.arg(1);
    let mut found = Found::default();
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
pub(in crate::dispatch) fn randomkey(call: &mut Call<'_>, tier: &mut Tier<'_>) -> Answer {
    let seed = call.session.next_random();
    let reply = &mut call.reply;
    let found = tier.random(seed, call.now, |entry| reply.bulk(entry.key));
    if found.is_none() {
        reply.null();
    }
    Ok(())
}

/// Keys found, of which the number is only known at the end.
#[derive(Debug, Default)]
struct Found {
    keys: Output,
    count: usize,
}
impl Found {
    fn push(&mut self, key: &[u8]) {
        // Bulk strings are the same in both protocols.
        Reply::new(&mut self.keys, false).bulk(key);
        self.count += 1;
    }
    fn reply(mut self, call: &mut Call<'_>) {
        call.reply.array(self.count);
        call.reply.output().append(&mut self.keys);
    }
}
