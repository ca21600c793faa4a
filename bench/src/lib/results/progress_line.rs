//! The line that shows a run's progress on a terminal.
use crate::lib::load::measure::Slice;
use std::{
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

/// See the module. Silent if standard error is no terminal.
pub(crate) struct ProgressLine {
    on: bool,
    length: Duration,
    total: Option<Duration>,
    /// What came since the line was written.
    since: Option<(Instant, Slice)>,
}

impl ProgressLine {
    /// A line for slices of this length; the run takes `total`, if it is known.
    pub(crate) fn new(length: Duration, total: Option<Duration>) -> ProgressLine {
        ProgressLine { on: stderr().is_terminal(), length, total, since: None }
    }

    /// Shows a slice, with those before it if they came in quick succession.
    pub(crate) fn show(&mut self, slice: &Slice) {
        const PERIOD: Duration = Duration::from_millis(900);
        if !self.on {
            return;
        }
        let (begun, sum) = self.since.get_or_insert_with(|| (Instant::now(), Slice::new(slice.index)));
        sum.add(slice);
        if begun.elapsed() < PERIOD {
            return;
        }
        let passed = self.length * (slice.index + 1) as u32;
        let total = self.total.map_or(String::new(), |total| format!(" of {:.0}", total.as_secs_f64()));
        let span = (slice.index + 1 - sum.index) as f64 * self.length.as_secs_f64();
        let ms = |quantile| sum.latency.value_at_quantile(quantile) as f64 / 1e6;
        // Back to the line's beginning; what was there is cleared.
        eprint!(
            "\r\x1b[K{:.0}{total} s   {:.0}/s   p50 {:.3}  p99 {:.3}  max {:.3} ms   {} errors",
            passed.as_secs_f64(),
            sum.counts.requests as f64 / span,
            ms(0.5),
            ms(0.99),
            ms(1.0),
            sum.counts.all_errors()
        );
        let _ = stderr().flush();
        self.since = None;
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.on {
            eprint!("\r\x1b[K");
        }
    }
}
