//! Which HTTP statuses count as errors.
use crate::lib::load::measure::ErrorKind;
use anyhow::Context;
use std::str::FromStr;

/// Which status codes are errors: `5xx,4xx,!404`; what stands later wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statuses(Vec<(u16, u16, bool)>);

impl FromStr for Statuses {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Statuses> {
        let rule = |part: &str| -> anyhow::Result<(u16, u16, bool)> {
            let (is_error, code) = part.strip_prefix('!').map_or((true, part), |code| (false, code));
            let (low, high) = match code.strip_suffix("xx") {
                Some(class) => (class.parse::<u16>().ok().map(|class| class * 100), 99),
                None => (code.parse().ok(), 0),
            };
            let low = low.filter(|low| (100..600).contains(low));
            let low = low.with_context(|| format!("{part:?} is no status such as 404, 5xx, !404"))?;
            Ok((low, low + high, is_error))
        };
        Ok(Statuses(text.split(',').filter(|part| !part.is_empty()).map(rule).collect::<anyhow::Result<_>>()?))
    }
}

impl Statuses {
    pub(super) fn error(&self, status: u16) -> Option<ErrorKind> {
        let rule = self.0.iter().rev().find(|(low, high, _)| (*low..=*high).contains(&status))?;
        rule.2.then_some(match status {
            400..=499 => ErrorKind::Http4xx,
            _ => ErrorKind::Http5xx,
        })
    }
}
