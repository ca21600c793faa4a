//! Rates of requests: `1000/s`, `user:=1000/s` for keys with a prefix, `@write=100/s` for commands.
use super::{command_lists::CommandList, key_length::MAX_KEY};
use std::{fmt, time::Duration};

/// Requests per second or per minute; not 0. After a pause those of the whole second or minute may
/// come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub requests: u32,
    pub per: Duration,
}

impl Rate {
    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    /// Reads `1000/s` or `5000/m`.
    pub(super) fn parse(text: &str) -> Result<Rate, String> {
        let what = || format!("`{text}` is not a rate: write 1000/s");
        let (digits, unit) = text.split_once('/').ok_or_else(what)?;
        let per = match unit {
            "s" => Rate::SECOND,
            "m" => Rate::MINUTE,
            _ => return Err(what()),
        };
        match digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten() {
            Some(0) => Err(format!("0/{unit} is too small: the least is 1/{unit}")),
            Some(requests) => match requests.try_into() {
                Ok(requests) => Ok(Rate { requests, per }),
                Err(_) => Err(format!("{text} is too large: the most is {}/{unit}", u32::MAX)),
            },
            None => Err(what()),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.requests, if self.per == Rate::SECOND { 's' } else { 'm' })
    }
}

/// What is limited, and to how many requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// A prefix of keys, or an entry of a list of commands.
    pub what: String,
    pub rate: Rate,
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.what, self.rate)
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
    let rate = Rate::parse(rate).map_err(|error| format!("{text}: {error}"))?;
    Ok(RateLimit { what: limited.to_owned(), rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let of = |text| RateLimit::of_prefix(text).map(|limit| (limit.what, limit.rate.requests));
        assert_eq!(of("user:=5/s"), Ok(("user:".into(), 5)));
        assert_eq!(of("a=b=70000/s"), Ok(("a=b".into(), 70_000)));
        assert_eq!(RateLimit::of_prefix("a:=5/m").map(|limit| limit.to_string()), Ok("a:=5/m".into()));
        assert_eq!(RateLimit::of_commands("@WRITE=1/s").map(|limit| limit.to_string()), Ok("@write=1/s".into()));
        assert_eq!(RateLimit::of_commands("config|set=9/s").map(|limit| limit.rate.requests), Ok(9));
        for text in ["", "=5/s", "user:", "user:=5", "user:=x/s", "user:=-1/s", "user:=99999999999/s", "user:=0/s"] {
            assert!(RateLimit::of_prefix(text).is_err(), "{text}");
        }
        let error = RateLimit::of_commands("@writes=1/s").expect_err("unknown");
        assert!(error.contains("did you mean @write?"), "{error}");
    }
}
