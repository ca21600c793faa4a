//! INCREX: a counter with bounds and a lifetime.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, NOT_FLOAT, NOT_INTEGER, SYNTAX},
    commands::{
        increments::counter_expiry,
        strings::{Lifetime, check_string},
    },
    long_double::LongDouble,
};
use larder_core::read::KeyEvent;
use larder_engine::{Change, Entry, Expiry, Tier};
use larder_proto::resp::{Args, Reply, parse_i64};

const NO_INTEGER: CommandError = CommandError::Static("ERR Increment is not an integer or out of range");
const NO_FLOAT: CommandError = CommandError::Static("ERR Increment is not a valid float");
const NO_INTEGER_BOUND: CommandError = CommandError::Static("ERR LBOUND or UBOUND is not an integer or out of range");
const NO_FLOAT_BOUND: CommandError = CommandError::Static("ERR LBOUND or UBOUND is not a valid float");
const NO_RANGE: CommandError = CommandError::Static("ERR LBOUND can't be greater than UBOUND");
const NO_LIFETIME: CommandError = CommandError::Static("ERR ENX flag requires an expiration");
const INFINITE_STEP: CommandError = CommandError::Static("ERR BYFLOAT increment cannot be Infinity");
const INFINITE: CommandError = CommandError::Static("ERR value cannot be Infinity");
const TOO_FAR: CommandError = CommandError::Static("ERR applied increment would overflow");

/// The options. None may be repeated.
#[derive(Debug, Default)]
struct Options<'a> {
    by: Option<&'a [u8]>,
    is_float: bool,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturates: bool,
    lifetime: Option<Lifetime<'a>>,
    persist: bool,
    /// The lifetime is for a key that has none.
    if_none: bool,
    /// Valkey's conditions on the key.
    if_absent: bool,
    if_present: bool,
}
impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        let mut parts = args.from(2);
        while let Some(part) = parts.next() {
            let is = |name: &str| part.eq_ignore_ascii_case(name.as_bytes());
            let o = &mut options;
            let flag = match () {
                () if is("SATURATE") => Some(&mut o.saturates),
                () if is("ENX") => Some(&mut o.if_none),
                () if is("PERSIST") => Some(&mut o.persist),
                () if is("NX") => Some(&mut o.if_absent),
                () if is("XX") => Some(&mut o.if_present),
                () => None,
            };
            if let Some(flag) = flag {
                if std::mem::replace(flag, true) {
                    return Err(SYNTAX);
                }
                continue;
            }
            let value = parts.next().ok_or(SYNTAX)?;
            if let Some(lifetime) = Lifetime::named(part, value) {
                if o.lifetime.replace(lifetime).is_some() {
                    return Err(SYNTAX);
                }
                continue;
            }
            let place = match () {
                () if is("BYINT") => &mut o.by,
                () if is("BYFLOAT") => {
                    o.is_float = true;
                    &mut o.by
                }
                () if is("LBOUND") => &mut o.lower,
                () if is("UBOUND") => &mut o.upper,
                () => return Err(SYNTAX),
            };
            if place.replace(value).is_some() {
                return Err(SYNTAX);
            }
        }
        if options.if_absent && options.if_present {
            return Err(SYNTAX);
        }
        match (options.lifetime.is_some(), options.persist, options.if_none) {
            (true, true, _) | (_, true, true) => Err(SYNTAX),
            (false, _, true) => Err(NO_LIFETIME),
            _ => Ok(options),
        }
    }
    fn expiry(&self, call: &CommandContext<'_>, entry: Option<&Entry<'_>>) -> Result<Expiry, CommandError> {
        let has_one = entry.is_some_and(|entry| entry.expiry().is_some());
        match self.lifetime {
            Some(lifetime) if !(self.if_none && has_one) => Ok(Expiry::At(lifetime.at(call.now, call.command.name)?)),
            None if self.persist => Ok(Expiry::Never),
            _ => Ok(counter_expiry(call, entry)),
        }
    }
}

/// A kind of number that a counter may have.
trait Number: Sized + Copy {
    fn parse_step(text: Option<&[u8]>) -> Result<Self, CommandError>;
    fn parse_bound(text: &[u8]) -> Result<Self, CommandError>;
    fn parse_value(entry: Option<&Entry<'_>>) -> Result<Self, CommandError>;
    /// `Err`: it is further than numbers go, in this direction.
    fn plus(self, by: Self) -> Result<Self, bool>;
    /// How far `to` is from here.
    fn step_to(self, to: Self) -> Result<Self, CommandError>;
    fn is_less(self, other: Self) -> bool;
    /// The greatest, or the least.
    fn limit(greatest: bool) -> Option<Self>;
    fn print(self) -> String;
    fn reply(self, reply: &mut Reply<'_>);
    const ZERO: Self;
}
impl Number for i64 {
    fn parse_step(text: Option<&[u8]>) -> Result<i64, CommandError> {
        text.map_or(Some(1), parse_i64).ok_or(NO_INTEGER)
    }
    fn parse_bound(text: &[u8]) -> Result<i64, CommandError> {
        parse_i64(text).ok_or(NO_INTEGER_BOUND)
    }
    fn parse_value(entry: Option<&Entry<'_>>) -> Result<i64, CommandError> {
        entry.map_or(Some(0), |entry| parse_i64(entry.value.as_bytes())).ok_or(NOT_INTEGER)
    }
    fn plus(self, by: i64) -> Result<i64, bool> {
        self.checked_add(by).ok_or(by > 0)
    }
    fn step_to(self, to: i64) -> Result<i64, CommandError> {
        to.checked_sub(self).ok_or(TOO_FAR)
    }
    fn is_less(self, other: i64) -> bool {
        self < other
    }
    fn limit(greatest: bool) -> Option<i64> {
        Some(if greatest { i64::MAX } else { i64::MIN })
    }
    fn print(self) -> String {
        self.to_string()
    }
    fn reply(self, reply: &mut Reply<'_>) {
        reply.integer(self);
    }
    const ZERO: i64 = 0;
}
impl Number for LongDouble {
    fn parse_step(text: Option<&[u8]>) -> Result<LongDouble, CommandError> {
        let step = text.and_then(LongDouble::parse).ok_or(NO_FLOAT)?;
        if step.is_infinite() { Err(INFINITE_STEP) } else { Ok(step) }
    }
    fn parse_bound(text: &[u8]) -> Result<LongDouble, CommandError> {
        LongDouble::parse(text).filter(|bound| !bound.is_infinite()).ok_or(NO_FLOAT_BOUND)
    }
    fn parse_value(entry: Option<&Entry<'_>>) -> Result<LongDouble, CommandError> {
        let value = entry.map_or(Some(LongDouble::ZERO), |entry| LongDouble::parse(entry.value.as_bytes()));
        match value.ok_or(NOT_FLOAT)? {
            value if value.is_infinite() => Err(INFINITE),
            value => Ok(value),
        }
    }
    fn plus(self, by: LongDouble) -> Result<LongDouble, bool> {
        self.add(by).ok_or(!by.is_negative())
    }
    fn step_to(self, to: LongDouble) -> Result<LongDouble, CommandError> {
        to.add(self.negated()).ok_or(TOO_FAR)
    }
    fn is_less(self, other: LongDouble) -> bool {
        // Numbers whose distance is too large for one are of different signs.
        self.add(other.negated()).map_or(self.is_negative(), LongDouble::is_negative)
    }
    fn limit(_: bool) -> Option<LongDouble> {
        None
    }
    fn print(self) -> String {
        LongDouble::print(self)
    }
    fn reply(self, reply: &mut Reply<'_>) {
        reply.decimal(&LongDouble::print(self));
    }
    const ZERO: LongDouble = LongDouble::ZERO;
}

/// `INCREX key [NX | XX] [BYINT n | BYFLOAT n] [LBOUND n] [UBOUND n] [SATURATE] [EX s | PX ms | EXAT s | PXAT
/// ms | PERSIST] [ENX]`
pub(crate) fn increx(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let options = Options::parse(call.args)?;
    if options.is_float { step::<LongDouble>(call, tier, &options) } else { step::<i64>(call, tier, &options) }
}

fn step<N: Number>(call: &mut CommandContext<'_>, tier: &mut Tier<'_>, options: &Options<'_>) -> Done {
    let by = N::parse_step(options.by)?;
    let bound = |text: Option<&[u8]>| text.map(N::parse_bound).transpose();
    let (lower, upper) = (bound(options.lower)?, bound(options.upper)?);
    if let (Some(lower), Some(upper)) = (lower, upper)
        && upper.is_less(lower)
    {
        return Err(NO_RANGE);
    }
    // An invalid time is an error whether it is needed or not.
    options.lifetime.map(|lifetime| lifetime.at(call.now, call.command.name)).transpose()?;
    let (new, applied, written) = tier.update(call.key(1), call.now, |entry, scratch| {
        let outcome = check_string(entry).and_then(|()| {
            let old = N::parse_value(entry)?;
            let is_met = if entry.is_some() { !options.if_absent } else { !options.if_present };
            if !is_met {
                return Ok((entry.map(|_| old), N::ZERO, None));
            }
            let sum = old.plus(by);
            let too_large = match sum {
                Ok(sum) => upper.is_some_and(|upper| upper.is_less(sum)),
                Err(is_up) => is_up,
            };
            let too_small = match sum {
                Ok(sum) => lower.is_some_and(|lower| sum.is_less(lower)),
                Err(is_up) => !is_up,
            };
            let new = match sum {
                Ok(sum) if !too_large && !too_small => sum,
                _ if !options.saturates => return Ok((Some(old), N::ZERO, None)),
                _ if too_large => upper.or_else(|| N::limit(true)).ok_or(TOO_FAR)?,
                _ => lower.or_else(|| N::limit(false)).ok_or(TOO_FAR)?,
            };
            let applied = if too_large || too_small { old.step_to(new)? } else { by };
            Ok((Some(new), applied, Some(options.expiry(call, entry)?)))
        });
        match outcome {
            Err(fault) => (Change::Keep, Err(fault)),
            Ok((Some(new), applied, Some(expiry))) => {
                scratch.extend_from_slice(new.print().as_bytes());
                (Change::Put(expiry), Ok((Some(new), applied, Some((entry.is_none(), expiry)))))
            }
            Ok((old, none, _)) => (Change::Keep, Ok((old, none, None))),
        }
    })??;
    if let Some((is_new, expiry)) = written {
        let event = if options.is_float { KeyEvent::IncrByFloat } else { KeyEvent::IncrBy };
        call.note_written(event, call.arg(1), is_new);
        match expiry {
            Expiry::At(_) if options.lifetime.is_some() => call.note_event(KeyEvent::Expire, call.arg(1)),
            Expiry::Never if options.persist => call.note_event(KeyEvent::Persist, call.arg(1)),
            _ => {}
        }
    }
    call.reply.array(2);
    match new {
        Some(new) => new.reply(&mut call.reply),
        None => call.reply.null(),
    }
    applied.reply(&mut call.reply);
    Ok(Flow::Done)
}
