//! What every program prints: one JSON object per line on standard output, so that a run can be
//! kept, joined and plotted.
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::{io::Write, time::Instant};

/// Writes one object as one line and flushes it, so that a long run can be watched and an aborted
/// one keeps what it measured.
pub(crate) fn line(out: &mut dyn Write, object: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(object).context("a result cannot be written as JSON")?;
    text.push('\n');
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write a result")
}

/// A figure that has a target: measured, wanted, and whether it was reached.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    /// The program that measured it.
    pub(crate) program: &'static str,
    /// What it is: a ratio names what is divided by what.
    pub(crate) figure: String,
    /// Its value; of a ratio, the quotient of two medians.
    pub(crate) value: f64,
    /// The bound it is held against, with its direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<FigureTarget>,
    /// Whether it was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) met: Option<bool>,
}

/// A bound on a figure.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FigureTarget {
    /// The figure may not be smaller.
    AtLeast(f64),
    /// The figure may not be larger.
    AtMost(f64),
}

impl FigureTarget {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            FigureTarget::AtLeast(bound) => value >= bound,
            FigureTarget::AtMost(bound) => value <= bound,
        }
    }
}

impl Figure {
    /// A figure, held against `target` if there is one.
    pub(crate) fn new(program: &'static str, figure: String, value: f64, target: Option<FigureTarget>) -> Figure {
        Figure { program, figure, value: rounded(value), target, met: target.map(|t| t.is_met_by(value)) }
    }
}

/// A number of things: `1 connection`, `2 connections`.
pub(crate) fn counted(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// The middle value (the mean of the two middle ones); NaN of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Runs each of `N` kinds of work in turn, `turns` times after one that warms up; the median time of
/// one of its `requests`, µs.
pub(crate) fn in_turn<const N: usize>(
    turns: u64,
    requests: u64,
    mut run: impl FnMut(u64, usize) -> anyhow::Result<()>,
) -> anyhow::Result<[f64; N]> {
    let mut times = [const { Vec::new() }; N];
    for turn in 0..=turns {
        for (kind, times) in times.iter_mut().enumerate() {
            let begun = Instant::now();
            run(turn, kind)?;
            if turn > 0 {
                times.push(begun.elapsed().as_secs_f64() * 1e6 / requests as f64);
            }
        }
    }
    Ok(times.map(|all| median(&all)))
}

/// The median of several runs, the least and the most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Of a figure of each run.
    pub(crate) fn of<'a, T: 'a>(runs: impl IntoIterator<Item = &'a T>, figure: impl Fn(&T) -> f64) -> Spread {
        let values: Vec<f64> = runs.into_iter().map(figure).collect();
        let (low, high) =
            (values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(0.0, f64::max));
        Spread { median: median(&values), low, high }
    }
}

/// Four decimals: more are noise.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_takes_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_target_has_a_direction() {
        let ratio = |value, target| Figure::new("t", "a/b".into(), value, Some(target)).met;
        assert_eq!(ratio(1.5, FigureTarget::AtLeast(1.5)), Some(true));
        assert_eq!(ratio(1.4, FigureTarget::AtLeast(1.5)), Some(false));
        assert_eq!(ratio(0.9, FigureTarget::AtMost(0.85)), Some(false));
    }

    #[test]
    fn one_object_is_one_line() {
        let mut out = Vec::new();
        line(&mut out, &Figure::new("t", "a/b".into(), 0.333_333, None)).expect("a vector accepts writes");
        assert_eq!(
            String::from_utf8(out).expect("JSON is UTF-8"),
            "{\"program\":\"t\",\"figure\":\"a/b\",\"value\":0.3333}\n"
        );
    }
}
