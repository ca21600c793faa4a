//! Strings as rows of bits: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP. Bit 0 is the highest bit of
//! the first byte.
use crate::{
    command_context::CommandContext,
    command_outcome::{BIT_OFFSET, CommandError, CommandResult, Done, SYNTAX, integer},
    commands::strings::check_string,
};
use larder_core::read::KeyEvent;
use larder_engine::{Attributes, Change, Condition, Key, Stored, Tier, Value, Write};
use larder_proto::resp::parse_i64;

/// Bits of the longest string that Redis takes (512 MiB).
const MAX_BITS: u64 = 1 << 32;

const BIT: CommandError = CommandError::Static("ERR bit is not an integer or out of range");
const BITPOS_BIT: CommandError = CommandError::Static("ERR The bit argument must be 1 or 0.");
const ONE_SOURCE: CommandError = CommandError::Static("ERR BITOP NOT must be called with a single source key.");

/// The number of a bit. For a command on fields of so many bits, `#n` is the first bit of field `n`.
pub(super) fn offset(text: &[u8], field: Option<u8>) -> Result<u64, CommandError> {
    let number = match (text, field) {
        ([b'#', number @ ..], Some(bits)) => parse_i64(number).and_then(|n| n.checked_mul(i64::from(bits))),
        _ => parse_i64(text),
    };
    number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number < MAX_BITS).ok_or(BIT_OFFSET)
}

/// Refuses a write that would make the value longer than `max-value`.
pub(super) fn check_bytes(call: &CommandContext<'_>, bytes: usize) -> CommandResult {
    let max = call.worker.app.settings.max_value;
    match bytes <= max {
        true => Ok(()),
        false => Err(CommandError::from(format!(
            "ERR bit offset is not an integer or out of range: a value has at most {max} bytes (max-value)"
        ))),
    }
}

/// What `read` finds in a string. A large one is read after the locks of its shard are free again.
pub(super) fn read_string<R>(
    call: &CommandContext<'_>,
    tier: &mut Tier<'_>,
    key: Key<'_>,
    mut read: impl FnMut(&[u8]) -> R,
) -> Result<Option<R>, CommandError> {
    let found = tier.get(key, call.now, |entry| {
        check_string(Some(&entry))?;
        Ok::<_, CommandError>(match entry.value {
            Value::Inline(bytes) => Ok(read(bytes)),
            large => Err(large.to_bytes()),
        })
    });
    Ok(found.transpose()?.map(|found| found.unwrap_or_else(|large| read(&large))))
}

/// GETBIT key offset
pub(crate) fn getbit(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let at = offset(call.arg(2), None)?;
    let byte = read_string(call, tier, call.key(1), |value| value.get((at / 8) as usize).copied())?.flatten();
    call.integer(i64::from(byte.unwrap_or(0) >> (7 - at % 8) & 1))
}

/// SETBIT key offset bit
pub(crate) fn setbit(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let at = offset(call.arg(2), None)?;
    let bit = parse_i64(call.arg(3)).filter(|bit| matches!(bit, 0 | 1)).ok_or(BIT)? as u8;
    let (byte, shift) = ((at / 8) as usize, 7 - at % 8);
    check_bytes(call, byte + 1)?;
    let behind_the_end = [bit << shift];
    let (old, is_new) = tier.update(call.key(1), call.now, |entry, scratch| {
        if let Err(fault) = check_string(entry) {
            return (Change::Keep, Err(fault));
        }
        let Some(old) = entry.and_then(|entry| entry.value.as_bytes().get(byte).copied()) else {
            return (Change::Splice(byte, &behind_the_end), Ok((0, Some(entry.is_none()))));
        };
        let new = old & !(1 << shift) | bit << shift;
        scratch.push(new);
        // Like in Redis, a bit that stays is no change.
        let (change, is_new) =
            if new == old { (Change::Keep, None) } else { (Change::Part(byte, byte + 1, None), Some(false)) };
        (change, Ok((old >> shift & 1, is_new)))
    })??;
    if let Some(is_new) = is_new {
        call.note_written(KeyEvent::SetBit, call.arg(1), is_new);
    }
    call.integer(i64::from(old))
}

/// Whether an argument says BIT, and not BYTE.
fn counts_bits(unit: Option<&[u8]>) -> Result<bool, CommandError> {
    match unit {
        Some(unit) if unit.eq_ignore_ascii_case(b"bit") => Ok(true),
        Some(unit) if !unit.eq_ignore_ascii_case(b"byte") => Err(SYNTAX),
        _ => Ok(false),
    }
}

/// The bits from position `start` to position `end`, both included, as their first and the one
/// behind the last. Positions are of bytes or of bits; negative ones count from the end.
fn range(value: &[u8], start: i64, end: i64, of_bits: bool) -> (u64, u64) {
    let unit = if of_bits { 1 } else { 8 };
    let len = value.len() as i64 * 8 / unit;
    let position = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (start, end) = (position(start), position(end).min(len - 1));
    if start <= end { ((start * unit) as u64, ((end + 1) * unit) as u64) } else { (0, 0) }
}

/// The bytes that have these bits, and masks for the first and the last of them. There is at least
/// one bit.
fn bytes_of(value: &[u8], from: u64, to: u64) -> (&[u8], u8, u8) {
    let bytes = &value[(from / 8) as usize..to.div_ceil(8) as usize];
    (bytes, 0xff >> (from % 8), 0xff << (to.next_multiple_of(8) - to))
}

fn count(value: &[u8], (from, to): (u64, u64)) -> u64 {
    if from == to {
        return 0;
    }
    let (bytes, first, last) = bytes_of(value, from, to);
    let (words, rest) = bytes.as_chunks::<8>();
    let all: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    let ones = |byte: u8| u64::from(byte.count_ones());
    let outside = ones(bytes[0] & !first) + ones(bytes[bytes.len() - 1] & !last);
    all + rest.iter().map(|byte| ones(*byte)).sum::<u64>() - outside
}

/// The first bit in this range that is (or is not) set.
fn position(value: &[u8], (from, to): (u64, u64), is_set: bool) -> Option<u64> {
    if from == to {
        return None;
    }
    let (bytes, first, last) = bytes_of(value, from, to);
    let others = if is_set { 0 } else { 0xff };
    let at = |index: usize| {
        let first = if index == 0 { first } else { 0xff };
        let last = if index == bytes.len() - 1 { last } else { 0xff };
        let wanted = (bytes[index] ^ others) & first & last;
        (wanted != 0).then(|| (from / 8 + index as u64) * 8 + u64::from(wanted.leading_zeros()))
    };
    let skipped = bytes[1..].as_chunks::<8>().0.iter().take_while(|word| **word == [others; 8]).count() * 8;
    at(0).or_else(|| (1 + skipped..bytes.len()).find_map(at))
}

/// `BITCOUNT key [start end [BYTE | BIT]]`
pub(crate) fn bitcount(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let args = call.args;
    let ones = read_string(call, tier, call.key(1), |value| {
        if args.len() == 2 {
            return Ok(count(value, (0, value.len() as u64 * 8)));
        }
        let (Some(start), Some(end), None) = (args.get(2), args.get(3), args.get(5)) else { return Err(SYNTAX) };
        let (start, end) = (integer(start)?, integer(end)?);
        if start < 0 && end < 0 && start > end {
            return Ok(0);
        }
        Ok(count(value, range(value, start, end, counts_bits(args.get(4))?)))
    })?;
    call.integer(ones.transpose()?.unwrap_or(0) as i64)
}

/// `BITPOS key bit [start [end [BYTE | BIT]]]`
pub(crate) fn bitpos(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let args = call.args;
    let is_set = match integer(call.arg(2))? {
        0 => false,
        1 => true,
        _ => return Err(BITPOS_BIT),
    };
    let found = read_string(call, tier, call.key(1), |value| {
        if args.len() > 6 {
            return Err(SYNTAX);
        }
        let start = args.get(3).map_or(Ok(0), integer)?;
        let of_bits = counts_bits(args.get(5))?;
        let end = args.get(4).map(integer).transpose()?;
        let range = range(value, start, end.unwrap_or(-1), of_bits);
        // Without an end, 0 bits follow the string.
        let behind = (range.0 < range.1 && !is_set && end.is_none()).then_some(range.1);
        Ok(position(value, range, is_set).or(behind).map_or(-1, |at| at as i64))
    })?;
    call.integer(found.transpose()?.unwrap_or(if is_set { -1 } else { 0 }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BitOperation {
    And,
    Or,
    Xor,
    Not,
    Diff,
    Diff1,
    AndOr,
    One,
}

const BIT_OPERATIONS: [(&str, BitOperation); 8] = [
    ("AND", BitOperation::And),
    ("OR", BitOperation::Or),
    ("XOR", BitOperation::Xor),
    ("NOT", BitOperation::Not),
    ("DIFF", BitOperation::Diff),
    ("DIFF1", BitOperation::Diff1),
    ("ANDOR", BitOperation::AndOr),
    ("ONE", BitOperation::One),
];

/// The sources of a BITOP, joined one after the other. The work grows with the bytes of the sources
/// and of the result, not with the number of sources: bytes behind the end of a source count as 0.
#[derive(Debug, Default)]
struct JoinedSources {
    /// Length of the longest source.
    len: usize,
    /// DIFF, DIFF1 and ANDOR: the first source. ONE: the bits that at least one source has.
    bits: Vec<u8>,
    /// DIFF, DIFF1 and ANDOR: the bits that at least one other source has. ONE: those that at least
    /// two sources have.
    others: Vec<u8>,
}

impl JoinedSources {
    /// Adds a source. That of an absent key is empty.
    fn add(&mut self, operation: BitOperation, is_first: bool, source: &[u8]) {
        self.len = self.len.max(source.len());
        match operation {
            _ if is_first => self.bits.extend_from_slice(source),
            BitOperation::And => {
                self.bits.truncate(source.len());
                self.bits.iter_mut().zip(source).for_each(|(to, from)| *to &= from);
            }
            BitOperation::Or | BitOperation::Not => join(&mut self.bits, source, |to, from| to | from),
            BitOperation::Xor => join(&mut self.bits, source, |to, from| to ^ from),
            BitOperation::One => {
                self.bits.resize(self.len, 0);
                self.others.resize(self.len, 0);
                for ((once, twice), from) in self.bits.iter_mut().zip(&mut self.others).zip(source) {
                    *twice |= *once & from;
                    *once |= from;
                }
            }
            BitOperation::Diff | BitOperation::Diff1 | BitOperation::AndOr => {
                join(&mut self.others, source, |to, from| to | from);
                self.others.resize(self.len, 0);
            }
        }
    }

    fn end(self, operation: BitOperation) -> Vec<u8> {
        let JoinedSources { len, mut bits, others } = self;
        bits.resize(len, 0);
        match operation {
            BitOperation::And | BitOperation::Or | BitOperation::Xor => {}
            BitOperation::Not => bits.iter_mut().for_each(|byte| *byte = !*byte),
            BitOperation::Diff | BitOperation::One => join(&mut bits, &others, |bits, others| bits & !others),
            BitOperation::Diff1 => join(&mut bits, &others, |bits, others| !bits & others),
            BitOperation::AndOr => join(&mut bits, &others, |bits, others| bits & others),
        }
        bits
    }
}

/// Joins bytes to those at the same place. `to` becomes at least as long as `from`.
fn join(to: &mut Vec<u8>, from: &[u8], with: impl Fn(u8, u8) -> u8) {
    to.resize(to.len().max(from.len()), 0);
    to.iter_mut().zip(from).for_each(|(to, from)| *to = with(*to, *from));
}

/// `BITOP AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE destination source [source …]`
pub(crate) fn bitop(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let is_named = |(name, _): &&(&str, _)| name.as_bytes().eq_ignore_ascii_case(call.arg(1));
    let (name, operation) = *BIT_OPERATIONS.iter().find(is_named).ok_or(SYNTAX)?;
    let has_one_source = call.args.len() == 4;
    match operation {
        BitOperation::Not if !has_one_source => return Err(ONE_SOURCE),
        BitOperation::Diff | BitOperation::Diff1 | BitOperation::AndOr if has_one_source => {
            let text = format!("ERR BITOP {name} must be called with at least two source keys.");
            return Err(CommandError::from(text));
        }
        _ => {}
    }
    let mut joined = JoinedSources::default();
    for (number, source) in call.args.from(3).enumerate() {
        let key = call.cache().key(source);
        let mut add = |value: &[u8]| joined.add(operation, number == 0, value);
        if read_string(call, tier, key, &mut add)?.is_none() {
            add(b"");
        }
    }
    let result = joined.end(operation);
    let to = call.key(2);
    if result.is_empty() {
        if tier.delete(to, call.now) {
            call.note_event(KeyEvent::Del, to.bytes());
        }
    } else {
        let expiry = call.lifetime(call.arg(2));
        let write = Write { value: &result, expiry, attributes: Attributes::NONE, condition: Condition::Always };
        let stored = tier.set(to, write, call.now)?;
        call.note_written(KeyEvent::Set, to.bytes(), matches!(stored, Stored::Created(_)));
    }
    call.integer(result.len() as i64)
}

#[cfg(test)]
mod tests {
    use super::{BIT_OPERATIONS, BitOperation, JoinedSources, count, position};
    use proptest::prelude::*;

    /// A bit of what an operation makes of sources that have, and have not, this bit.
    fn bit_of(operation: BitOperation, sources: &[bool]) -> bool {
        let (first, others) = (sources[0], sources[1..].contains(&true));
        let ones = sources.iter().filter(|bit| **bit).count();
        match operation {
            BitOperation::And => ones == sources.len(),
            BitOperation::Or => ones > 0,
            BitOperation::Xor => ones % 2 == 1,
            BitOperation::Not => !first,
            BitOperation::Diff => first && !others,
            BitOperation::Diff1 => !first && others,
            BitOperation::AndOr => first && others,
            BitOperation::One => ones == 1,
        }
    }

    proptest! {
        #[test]
        fn ranges_of_bits_are_counted_and_found_as_one_bit_after_the_other(
            bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..60),
            ends in (any::<u64>(), any::<u64>()),
        ) {
            let bits = bytes.len() as u64 * 8 + 1;
            let (a, b) = (ends.0 % bits, ends.1 % bits);
            let (from, to) = (a.min(b), a.max(b));
            let is_set = |at: &u64| bytes[(*at / 8) as usize] >> (7 - at % 8) & 1 == 1;
            prop_assert_eq!(count(&bytes, (from, to)), (from..to).filter(is_set).count() as u64);
            prop_assert_eq!(position(&bytes, (from, to), true), (from..to).find(is_set));
            prop_assert_eq!(position(&bytes, (from, to), false), (from..to).find(|at| !is_set(at)));
        }

        #[test]
        fn sources_are_joined_as_one_bit_after_the_other(
            sources in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 2..6),
        ) {
            let len = sources.iter().map(Vec::len).max().unwrap_or(0);
            for (name, operation) in BIT_OPERATIONS {
                let sources = if operation == BitOperation::Not { &sources[..1] } else { &sources[..] };
                let len = if operation == BitOperation::Not { sources[0].len() } else { len };
                let mut joined = JoinedSources::default();
                sources.iter().enumerate().for_each(|(at, source)| joined.add(operation, at == 0, source));
                let result = joined.end(operation);
                prop_assert_eq!(result.len(), len, "{}", name);
                for bit in 0..len * 8 {
                    let is_set = |bytes: &[u8]| bytes.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
                    let bits: Vec<bool> = sources.iter().map(|source| is_set(source)).collect();
                    prop_assert_eq!(is_set(&result), bit_of(operation, &bits), "{} {}", name, bit);
                }
            }
        }
    }
}
