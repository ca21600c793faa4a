//! Iterating over the keyspace: SCAN, KEYS, RANDOMKEY.
use super::keys::type_name;
use crate::{
    command_context::CommandContext,
    command_outcome::{CURSOR, CommandError, Done, Flow, SYNTAX, integer},
};
use larder_engine::Tier;
use larder_proto::{glob::Pace, output::Output, resp::Reply};
use larder_source::kind_of;
use larder_store::ValueKind;

/// Entries that SCAN visits without the option COUNT.
const COUNT: usize = 10;
/// Maximum entries that one SCAN visits. COUNT is a hint.
const MAX_COUNT: usize = 1 << 20;
/// A page of SCAN ends after so many turns' comparisons.
const TURNS_OF_A_PAGE: usize = 8;
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    /// Where the scan continues. 0: at the start.
    pub(crate) cursor: u64,
    /// The number of keys to visit.
    pub(crate) count: usize,
    pub(crate) pattern: Option<&'a [u8]>,
    /// TYPE: keys of other types do not match.
    pub(crate) typed: Option<&'a [u8]>,
}
impl<'a> Walk<'a> {
    /// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
    pub(crate) fn parse(call: &CommandContext<'a>) -> Result<Walk<'a>, CommandError> {
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

    pub(super) fn is_of_type(&self, kind: ValueKind) -> bool {
        self.typed.is_none_or(|name| name.eq_ignore_ascii_case(type_name(kind).as_bytes()))
    }
}

pub(crate) fn scan(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let walk = Walk::parse(call)?;
    let (mut pace, mut found) = (walk.pattern.map(Pace::new), WalkPage::of(call));
    let (mut next, mut left, mut turns) = (walk.cursor, walk.count, 0);
    // A page of long keys may have fewer than COUNT.
    while turns < TURNS_OF_A_PAGE {
        let count = left.min(pace.as_ref().map_or(left, Pace::group));
        next = tier.scan(next, count, call.now, |entry| {
            let is_of_type = walk.is_of_type(kind_of(entry.metadata()));
            if is_of_type && pace.as_mut().is_none_or(|pace| pace.matches(entry.key)) {
                found.push(entry.key);
            }
        });
        left -= count;
        if next == 0 || left == 0 {
            break;
        }
        turns += usize::from(pace.as_mut().is_some_and(Pace::is_turn_over));
    }
    call.reply.array(2);
    call.reply.bulk_unsigned(next);
    found.reply(call);
    Ok(Flow::Done)
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

/// KEYS pattern, within a transaction
pub(crate) fn keys(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let (mut pace, mut found, mut cursor) = (Pace::new(call.arg(1)), WalkPage::of(call), 0);
    loop {
        cursor = keys_from(call, tier, cursor, &mut pace, &mut found);
        pace.is_turn_over();
        if cursor == 0 || found.is_refused() {
            break;
        }
    }
    found.reply(call);
    Ok(Flow::Done)
}
/// KEYS pattern. Other clients have their turns in between, so what they write meanwhile may be listed
/// or not.
pub(crate) async fn keys_in_turns(call: &mut CommandContext<'_>) -> Done {
    let (mut pace, mut found, mut cursor) = (Pace::new(call.arg(1)), WalkPage::of(call), 0);
    loop {
        cursor = keys_from(call, &mut call.cache().tier(), cursor, &mut pace, &mut found);
        if cursor == 0 || found.is_refused() {
            break;
        }
        if pace.is_turn_over() {
            tokio::task::yield_now().await;
        }
    }
    found.reply(call);
    Ok(Flow::Done)
}
/// Visits a group of entries. Returns where to go on; 0: done.
fn keys_from(
    call: &CommandContext<'_>,
    tier: &mut Tier<'_>,
    cursor: u64,
    pace: &mut Pace<'_>,
    found: &mut WalkPage,
) -> u64 {
    tier.scan(cursor, pace.group(), call.now, |entry| {
        if pace.matches(entry.key) {
            found.push(entry.key);
        }
    })
}

pub(crate) fn randomkey(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let seed = fastrand::u64(..);
    let reply = &mut call.reply;
    let found = tier.random(seed, call.now, |entry| reply.bulk(entry.key));
    if found.is_none() {
        reply.null();
    }
    Ok(Flow::Done)
}

/// Found keys. Their number is known only at the end.
#[derive(Debug)]
pub(crate) struct WalkPage {
    keys: Output,
    count: usize,
}
impl WalkPage {
    /// An empty page of this command's reply.
    pub(crate) fn of(call: &mut CommandContext<'_>) -> WalkPage {
        WalkPage { keys: call.reply.output().beside(), count: 0 }
    }
    /// Whether the buffers have no room for more keys.
    pub(crate) fn is_refused(&self) -> bool {
        self.keys.is_refused()
    }
    pub(crate) fn push(&mut self, key: &[u8]) {
        // Bulk strings are the same in RESP2 and RESP3.
        Reply::new(&mut self.keys, false).bulk(key);
        self.count += 1;
    }
    pub(crate) fn reply(mut self, call: &mut CommandContext<'_>) {
        call.reply.array(self.count);
        call.reply.output().append(&mut self.keys);
    }
}
