//! Where Redis clients are authenticated: `larder`, `passthrough`, `passthrough:1s`.
use larder_units::{parse_duration, show_duration};
use std::{fmt, str::FromStr, time::Duration};

/// Who checks the credentials of Redis clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthMode {
    /// This process.
    Larder,
    /// The source; for how long its answers count.
    Passthrough(Duration),
}

/// Rules that are a little old save the source a question per command.
const USUAL: Duration = Duration::from_millis(200);
const PASSTHROUGH: &str = "passthrough";

impl FromStr for AuthMode {
    type Err = String;
    fn from_str(text: &str) -> Result<AuthMode, String> {
        let (mode, age) = text.split_once(':').map_or((text, None), |(mode, age)| (mode, Some(age)));
        match age {
            None if mode.eq_ignore_ascii_case("larder") => Ok(AuthMode::Larder),
            age if mode.eq_ignore_ascii_case(PASSTHROUGH) => {
                let age = age.map(parse_duration).transpose()?;
                Ok(AuthMode::Passthrough(age.unwrap_or(USUAL)))
            }
            _ => Err(format!("`{text}` is not one of larder, {PASSTHROUGH}, {PASSTHROUGH}:1s")),
        }
    }
}

impl fmt::Display for AuthMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthMode::Larder => f.write_str("larder"),
            AuthMode::Passthrough(USUAL) => f.write_str(PASSTHROUGH),
            AuthMode::Passthrough(age) => write!(f, "{PASSTHROUGH}:{}", show_duration(*age)),
        }
    }
}
