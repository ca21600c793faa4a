//! BITFIELD: integers of any number of bits within a string.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, SYNTAX, integer},
    commands::{
        bits::{check_bytes, offset, read_string},
        strings::check_string,
    },
};
use larder_core::read::KeyEvent;
use larder_engine::{Change, Tier};
use larder_proto::resp::{Args, parse_i64};

const BAD_TYPE: CommandError = CommandError::Static(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);
const BAD_OVERFLOW: CommandError = CommandError::Static("ERR Invalid OVERFLOW type specified");
const READS_ONLY: CommandError = CommandError::Static("ERR BITFIELD_RO only supports the GET subcommand");

/// What becomes of a number that the field cannot hold.
#[derive(Debug, Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    /// The field stays, and the reply is null.
    Fail,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    is_signed: bool,
    bits: u8,
    /// Its first bit.
    at: u64,
}
impl Field {
    fn parse(kind: &[u8], at: &[u8]) -> Result<Field, CommandError> {
        let (is_signed, most) = match kind.first() {
            Some(b'i') => (true, 64),
            Some(b'u') => (false, 63),
            _ => return Err(BAD_TYPE),
        };
        let bits = parse_i64(&kind[1..]).filter(|bits| (1..=most).contains(bits)).ok_or(BAD_TYPE)? as u8;
        Ok(Field { is_signed, bits, at: offset(at, Some(bits))? })
    }
    fn first_byte(self) -> usize {
        (self.at / 8) as usize
    }
    /// The byte behind the last that has bits of it.
    fn end(self) -> usize {
        (self.at + u64::from(self.bits)).div_ceil(8) as usize
    }
    /// How far its last bit is from the end of its last byte.
    fn shift(self) -> u32 {
        (self.end() as u64 * 8 - self.at) as u32 - u32::from(self.bits)
    }
    fn mask(self) -> u128 {
        (1 << self.bits) - 1
    }
    /// The number whose lowest bits are these.
    fn number(self, bits: u128) -> i128 {
        let unused = 128 - u32::from(self.bits);
        let bits = bits << unused;
        if self.is_signed { bits.cast_signed() >> unused } else { (bits >> unused).cast_signed() }
    }
    /// The bytes that have bits of it, as one number. `byte` returns the byte at a position.
    fn bytes(self, byte: impl Fn(usize) -> u8) -> u128 {
        (self.first_byte()..self.end()).fold(0, |all, at| all << 8 | u128::from(byte(at)))
    }
    fn read(self, byte: impl Fn(usize) -> u8) -> i128 {
        self.number(self.bytes(byte) >> self.shift() & self.mask())
    }
    /// Writes it into the bytes of a value, of which the first is at this position.
    fn write(self, number: i128, bytes: &mut [u8], position: usize) {
        let bytes = &mut bytes[self.first_byte() - position..self.end() - position];
        let first = self.first_byte();
        let mut all = self.bytes(|at| bytes[at - first]);
        all = all & !(self.mask() << self.shift()) | (number.cast_unsigned() & self.mask()) << self.shift();
        for byte in bytes.iter_mut().rev() {
            *byte = all as u8;
            all >>= 8;
        }
    }
    /// What the field holds if this number is written to it; `None`: it stays as it is.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i128> {
        let most = if self.is_signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 };
        let least = if self.is_signed { -most - 1 } else { 0 };
        match overflow {
            _ if (least..=most).contains(&number) => Some(number),
            Overflow::Wrap => Some(self.number(number.cast_unsigned() & self.mask())),
            Overflow::Saturate => Some(number.clamp(least, most)),
            Overflow::Fail => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

fn parse(args: Args<'_>) -> Result<Vec<(Field, Step)>, CommandError> {
    let (mut steps, mut overflow, mut at) = (Vec::new(), Overflow::Wrap, 2);
    while let Some(name) = args.get(at) {
        let is = |text: &str, more: usize| name.eq_ignore_ascii_case(text.as_bytes()) && at + more < args.len();
        if is("OVERFLOW", 1) {
            overflow = match &args[at + 1] {
                kind if kind.eq_ignore_ascii_case(b"wrap") => Overflow::Wrap,
                kind if kind.eq_ignore_ascii_case(b"sat") => Overflow::Saturate,
                kind if kind.eq_ignore_ascii_case(b"fail") => Overflow::Fail,
                _ => return Err(BAD_OVERFLOW),
            };
            at += 2;
            continue;
        }
        let parts = match () {
            () if is("GET", 2) => 3,
            () if is("SET", 3) || is("INCRBY", 3) => 4,
            () => return Err(SYNTAX),
        };
        let field = Field::parse(&args[at + 1], &args[at + 2])?;
        steps.push((
            field,
            match parts {
                3 => Step::Get,
                _ if is("SET", 3) => Step::Set(integer(&args[at + 3])?, overflow),
                _ => Step::Add(integer(&args[at + 3])?, overflow),
            },
        ));
        at += parts;
    }
    Ok(steps)
}

/// `BITFIELD_RO key [GET type offset …]`
pub(crate) fn bitfield_ro(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let steps = parse(call.args)?;
    match steps.iter().all(|(_, step)| matches!(step, Step::Get)) {
        true => read(call, tier, &steps),
        false => Err(READS_ONLY),
    }
}

fn read(call: &mut CommandContext<'_>, tier: &mut Tier<'_>, steps: &[(Field, Step)]) -> Done {
    let numbers = |value: &[u8]| -> Vec<i64> {
        let byte = |at: usize| value.get(at).copied().unwrap_or(0);
        steps.iter().map(|(field, _)| field.read(byte) as i64).collect()
    };
    let found = read_string(call, tier, call.key(1), numbers)?.unwrap_or_else(|| numbers(&[]));
    call.reply.array(found.len());
    found.into_iter().for_each(|number| call.reply.integer(number));
    Ok(Flow::Done)
}

/// `BITFIELD key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value | INCRBY
/// type offset increment]…`
pub(crate) fn bitfield(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let steps = parse(call.args)?;
    let written = || steps.iter().filter(|(_, step)| !matches!(step, Step::Get)).map(|(field, _)| field);
    let Some(first) = written().map(|field| field.first_byte()).min() else { return read(call, tier, &steps) };
    let end = written().map(|field| field.end()).max().unwrap_or(first);
    check_bytes(call, end)?;
    let (key, lifetime) = (call.key(1), call.lifetime(call.arg(1)));
    let reply = &mut call.reply;
    let is_new = tier.update(key, call.now, |entry, part| {
        if let Err(fault) = check_string(entry) {
            return (Change::Keep, Err(fault));
        }
        let value = entry.map_or(&[][..], |entry| entry.value.as_bytes());
        // The part of the value that is written to, and what is missing before it.
        let (from, to) = (first.min(value.len()), end.min(value.len()));
        part.extend_from_slice(&value[from..to]);
        part.resize(end - from, 0);
        let mut is_changed = to < end;
        reply.array(steps.len());
        for (field, step) in &steps {
            let old = field.read(|at| {
                let within = at.checked_sub(from).and_then(|at| part.get(at));
                within.or_else(|| value.get(at)).copied().unwrap_or(0)
            });
            let (shown, new) = match *step {
                Step::Get => (Some(old), old),
                Step::Set(number, overflow) => {
                    // A negative number is one that is too large for a field without a sign.
                    let number = if field.is_signed { number.into() } else { number.cast_unsigned().into() };
                    let new = field.fit(number, overflow);
                    (new.map(|_| old), new.unwrap_or(old))
                }
                Step::Add(by, overflow) => {
                    let new = field.fit(old + i128::from(by), overflow);
                    (new, new.unwrap_or(old))
                }
            };
            match shown {
                Some(number) => reply.integer(number as i64),
                None => reply.null(),
            }
            if new != old {
                is_changed = true;
                field.write(new, part, from);
            }
        }
        let (change, is_new) = match entry {
            None => (Change::Put(lifetime), Some(true)),
            Some(_) if is_changed => (Change::Part(from, to, None), Some(false)),
            Some(_) => (Change::Keep, None),
        };
        (change, Ok(is_new))
    })??;
    if let Some(is_new) = is_new {
        call.note_written(KeyEvent::SetBit, key.bytes(), is_new);
    }
    Ok(Flow::Done)
}

#[cfg(test)]
mod tests {
    use super::{Field, Overflow};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_field_keeps_what_fits_and_its_neighbours_stay(
            mut bytes in proptest::collection::vec(any::<u8>(), 24),
            is_signed: bool,
            bits in 1u8..=63,
            at in 0u64..100,
            number: i64,
        ) {
            let field = Field { is_signed, bits, at };
            let before = bytes.clone();
            let bit = |bytes: &[u8], at: u64| bytes[(at / 8) as usize] >> (7 - at % 8) & 1;
            let kept = field.fit(number.into(), Overflow::Wrap).unwrap();
            field.write(kept, &mut bytes, 0);
            prop_assert_eq!(field.read(|at| bytes[at]), kept);
            prop_assert_eq!((kept - i128::from(number)) % (1 << bits), 0);
            for other in (0..192).filter(|other| !(at..at + u64::from(bits)).contains(other)) {
                prop_assert_eq!(bit(&bytes, other), bit(&before, other));
            }
        }
    }
}
