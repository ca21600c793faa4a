//! Rates for some of the requests: `user:=1000/s` for keys with a prefix, `@write=100/s` for
//! commands.
use super::{command_lists::CommandList, key_length::MAX_KEY};
use std::fmt;

/// What is limited, and to how many requests per second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// A prefix of keys, or an entry of a list of commands.
    pub what: String,
    /// Requests per second, and at once after a pause.
    pub rate: u32,
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}/s", self.what, self.rate)
    }
}

impl RateLimit {
    /// Reads `PREFIX=N/s`. A prefix may have `=` in it.
    pub(super) fn of_prefix(text: &str) -> Result<RateLimit, String> {
        let limit = split(text, "user:=1000/s")?;
        match limit.what.len() as u64 > MAX_KEY {
            true => Err(format!("the prefix is longer than the longest key ({MAX_KEY} bytes)")),
            false => Ok(limit),
        }
    }
    /// Reads `COMMAND=N/s`, where the command is as in `deny-commands`.
    pub(super) fn of_commands(text: &str) -> Result<RateLimit, String> {
        let limit = split(text, "@write=100/s")?;
        Ok(RateLimit { what: CommandList::check(&limit.what)?, ..limit })
    }
}

fn split(text: &str, example: &str) -> Result<RateLimit, String> {
    let what = || format!("`{text}` is not a limit: write {example}");
    let (limited, rate) = text.rsplit_once('=').filter(|(limited, _)| !limited.is_empty()).ok_or_else(what)?;
    let digits =
        rate.strip_suffix("/s").filter(|digits| digits.bytes().all(|b| b.is_ascii_digit())).ok_or_else(what)?;
    match digits.parse() {
        Ok(0) => Err(format!("{text}: the least is 1/s")),
        Ok(rate) => Ok(RateLimit { what: limited.to_owned(), rate }),
        Err(_) => Err(what()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let of = |text| RateLimit::of_prefix(text).map(|limit| (limit.what, limit.rate));
        assert_eq!(of("user:=5/s"), Ok(("user:".into(), 5)));
        assert_eq!(of("a=b=70000/s"), Ok(("a=b".into(), 70_000)));
        assert_eq!(RateLimit::of_commands("@WRITE=1/s").map(|limit| limit.to_string()), Ok("@write=1/s".into()));
        assert_eq!(RateLimit::of_commands("config|set=9/s").map(|limit| limit.rate), Ok(9));
        for text in ["", "=5/s", "user:", "user:=5", "user:=x/s", "user:=-1/s", "user:=99999999999/s", "user:=0/s"] {
            assert!(RateLimit::of_prefix(text).is_err(), "{text}");
        }
        let error = RateLimit::of_commands("@writes=1/s").expect_err("unknown");
        assert!(error.contains("did you mean @write?"), "{error}");
    }
}
