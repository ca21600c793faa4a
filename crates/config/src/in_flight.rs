//! A limit on the fetches at one server: `4096`, or `fixed:100` for one that latency does not lower.
use std::{fmt, str::FromStr};

/// A limit on the fetches at one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InFlight {
    pub limit: usize,
    /// Latency lowers it.
    pub is_adaptive: bool,
}

const FIXED: &str = "fixed:";

impl FromStr for InFlight {
    type Err = String;
    fn from_str(text: &str) -> Result<InFlight, String> {
        let number = text.strip_prefix(FIXED).unwrap_or(text);
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        match number.parse().ok().filter(|_| is_plain) {
            Some(limit @ 1..=1_048_576) => Ok(InFlight { limit, is_adaptive: number == text }),
            _ => Err(format!("`{text}` is not a number of fetches from 1 to 1048576: write 4096, or {FIXED}4096")),
        }
    }
}

impl fmt::Display for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_adaptive { "" } else { FIXED }, self.limit)
    }
}
