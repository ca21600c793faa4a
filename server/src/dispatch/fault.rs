//! Why a command failed: the error replies, in the words of Redis, because clients parse them.
use crate::source::SourceError;
use larder_engine::TooLarge;
use larder_proto::resp::{Reply, parse_i64};

/// An error reply: a code in capitals and words.
#[derive(Debug)]
pub(super) enum Fault {
    Said(&'static str),
    Told(Vec<u8>),
}

/// What a command on the tier comes to: its reply is written, or it failed.
pub(super) type Answer = Result<(), Fault>;

pub(super) const SYNTAX: Fault = Fault::Said("ERR syntax error");
pub(super) const NOT_INTEGER: Fault = Fault::Said("ERR value is not an integer or out of range");
pub(super) const NOT_FLOAT: Fault = Fault::Said("ERR value is not a valid float");
pub(super) const OVERFLOW: Fault = Fault::Said("ERR increment or decrement would overflow");
pub(super) const DECREMENT_OVERFLOW: Fault = Fault::Said("ERR decrement would overflow");
pub(super) const NOT_FINITE: Fault = Fault::Said("ERR increment would produce NaN or Infinity");
pub(super) const OFFSET: Fault = Fault::Said("ERR offset is out of range");
pub(super) const TOO_LONG: Fault = Fault::Said("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
pub(super) const NO_SUCH_KEY: Fault = Fault::Said("ERR no such key");
pub(super) const SAME_OBJECT: Fault = Fault::Said("ERR source and destination objects are the same");
pub(super) const DB_INDEX: Fault = Fault::Said("ERR DB index is out of range");
pub(super) const CURSOR: Fault = Fault::Said("ERR invalid cursor");
pub(super) const NO_AUTH: Fault = Fault::Said("NOAUTH Authentication required.");
pub(super) const WRONG_PASS: Fault = Fault::Said("WRONGPASS invalid username-password pair or user is disabled.");
pub(super) const NOT_IN_MULTI: Fault = Fault::Said("ERR Command not allowed inside a transaction");
pub(super) const NO_CLUSTER: Fault = Fault::Said("ERR This instance has cluster support disabled");
pub(super) const EXEC_ABORT: Fault = Fault::Said("EXECABORT Transaction discarded because of previous errors.");

impl Fault {
    /// Writes it.
    #[cold]
    pub(super) fn reply(&self, to: &mut Reply<'_>) {
        match self {
            Fault::Said(text) => to.error(text.as_bytes()),
            Fault::Told(text) => to.error(text),
        }
    }
    /// Text that quotes what a client sent: cut at a NUL byte as C would, and to at most `limit` bytes.
    pub(super) fn quoting(before: &str, quoted: &[u8], limit: usize, after: &str) -> Fault {
        let mut text = [before.as_bytes(), c_str(quoted, limit), after.as_bytes()].concat();
        while text.pop_if(|b| matches!(b, b'\r' | b'\n')).is_some() {}
        Fault::Told(text)
    }
}

/// What C would print of a string with `%.*s`.
pub(super) fn c_str(bytes: &[u8], limit: usize) -> &[u8] {
    let cut = &bytes[..bytes.len().min(limit)];
    cut.split(|&b| b == 0).next().unwrap_or(cut)
}

impl From<TooLarge> for Fault {
    fn from(error: TooLarge) -> Fault {
        let TooLarge { needed, max_memory } = error;
        Fault::Told(
            format!("OOM the entry needs {needed} bytes, more than max-memory ({max_memory}) allows").into_bytes(),
        )
    }
}
impl From<SourceError> for Fault {
    fn from(error: SourceError) -> Fault {
        let text = match error {
            // Its own code stands before it.
            SourceError::Refused(text) => text.to_string(),
            error => format!("ERR {error}"),
        };
        Fault::Told(text.into_bytes())
    }
}

/// An integer argument.
pub(super) fn integer(text: &[u8]) -> Result<i64, Fault> {
    parse_i64(text).ok_or(NOT_INTEGER)
}
/// A C `int` argument (database numbers).
pub(super) fn int(text: &[u8]) -> Result<i32, Fault> {
    let value = integer(text)?;
    i32::try_from(value).map_err(|_| {
        Fault::Told(format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX).into_bytes())
    })
}
