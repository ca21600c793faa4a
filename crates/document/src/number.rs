//! Arithmetic on numbers of a document.
use crate::edit::EditError;
use serde_json::Number;

/// What is done with two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberEdit {
    /// Their sum.
    Add,
    /// Their product.
    Multiply,
    /// The first to the power of the second.
    Power,
}

/// The second number, read once for all values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operand {
    integer: Option<i64>,
    float: Option<f64>,
}

impl Operand {
    pub(crate) fn of(text: &str) -> Operand {
        Operand { integer: text.parse().ok(), float: text.parse().ok() }
    }
}

/// The result as JSON text. Integers stay exact; anything else is computed in 64-bit floats, like
/// in RedisJSON.
pub(crate) fn changed(edit: NumberEdit, held: &[u8], by: Operand) -> Result<String, EditError> {
    let held = std::str::from_utf8(held).map_err(|_| EditError::NotANumber)?;
    if let (Ok(held), Some(by)) = (held.parse::<i64>(), by.integer) {
        let result = match edit {
            NumberEdit::Add => held.checked_add(by),
            NumberEdit::Multiply => held.checked_mul(by),
            // An integer to a negative power is none, and RedisJSON calls that an overflow, too.
            NumberEdit::Power => u32::try_from(by).ok().and_then(|by| held.checked_pow(by)),
        };
        return result.map(|result| result.to_string()).ok_or(EditError::Overflow);
    }
    let (held, by): (f64, f64) = held.parse().ok().zip(by.float).ok_or(EditError::NotANumber)?;
    let result = match edit {
        NumberEdit::Add => held + by,
        NumberEdit::Multiply => held * by,
        NumberEdit::Power => held.powf(by),
    };
    // No infinity, no NaN. RedisJSON writes exponents without a plus.
    Number::from_f64(result).map(|number| number.to_string().replace("e+", "e")).ok_or(EditError::NotANumber)
}
