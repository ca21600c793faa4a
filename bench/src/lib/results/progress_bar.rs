//! How far a long program is, on a terminal. Where standard error is no terminal, or the program
//! was asked to be quiet, nothing is shown.
use crate::lib::load::measure::Slice;
use indicatif::{ProgressBar as Bar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// A bar that goes when it is dropped.
pub(crate) struct ProgressBar {
    bar: Bar,
}

impl ProgressBar {
    /// Of `total` steps, such as keys or measurements; `what` is shown before the bar.
    pub(crate) fn steps(what: impl Into<String>, total: u64, quiet: bool) -> ProgressBar {
        let bar = Bar::with_draw_target(Some(total), target(quiet)).with_message(what.into());
        bar.set_style(style("{msg} [{bar:30}] {pos}/{len}  {eta} left"));
        ProgressBar { bar }
    }

    /// Another step begins.
    pub(crate) fn begin(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// So many steps are done.
    pub(crate) fn show(&self, done: u64) {
        self.bar.set_position(done);
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn target(quiet: bool) -> ProgressDrawTarget {
    if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid").progress_chars("##-")
}

/// The bar of one load: time passed, and the figures of the last second.
pub(crate) struct LoadProgress {
    progress: ProgressBar,
    length: Duration,
    /// What came since the figures were written.
    since: Option<(Instant, Slice)>,
}

impl LoadProgress {
    /// For slices of this length; the load takes `total`, if it is known.
    pub(crate) fn new(length: Duration, total: Option<Duration>, quiet: bool) -> LoadProgress {
        let total = total.map(|total| total.as_millis() as u64);
        let bar = Bar::with_draw_target(total, target(quiet));
        bar.set_style(match total {
            Some(_) => style("[{bar:30}] {eta} left  {msg}"),
            None => style("{spinner} {elapsed}  {msg}"),
        });
        LoadProgress { progress: ProgressBar { bar }, length, since: None }
    }

    /// Shows a slice, with those before it if they came in quick succession.
    pub(crate) fn show(&mut self, slice: &Slice) {
        const PERIOD: Duration = Duration::from_millis(900);
        let bar = &self.progress.bar;
        if bar.is_hidden() {
            return;
        }
        bar.set_position((self.length * (slice.index + 1) as u32).as_millis() as u64);
        let (begun, sum) = self.since.get_or_insert_with(|| (Instant::now(), Slice::new(slice.index)));
        sum.add(slice);
        if begun.elapsed() < PERIOD {
            return;
        }
        let span = (slice.index + 1 - sum.index) as f64 * self.length.as_secs_f64();
        let ms = |quantile| sum.latency.value_at_quantile(quantile) as f64 / 1e6;
        bar.set_message(format!(
            "{:.0}/s  p50 {:.3}  p99 {:.3}  max {:.3} ms  {} errors",
            sum.counts.requests as f64 / span,
            ms(0.5),
            ms(0.99),
            ms(1.0),
            sum.counts.all_errors()
        ));
        self.since = None;
    }
}
