//! How far a long command is, on a terminal: a bar with the rate and the time left. Where standard
//! error is not a terminal, there is nothing.
use indicatif::{ProgressBar as Bar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::{fmt::Write, time::Duration};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    Entries,
}

impl Unit {
    fn template(self) -> &'static str {
        match self {
            Unit::Bytes => "{msg} [{bar:30}] {percent:>3} %  {binary_bytes_per_sec}  {eta} left",
            Unit::Entries => "{msg} [{bar:30}] {percent:>3} %  {rate}  {eta} left",
        }
    }
}

/// A line that goes when it is dropped.
pub(super) struct ProgressBar {
    bar: Bar,
    unit: Unit,
}

impl ProgressBar {
    pub(super) fn new(what: &'static str, unit: Unit) -> ProgressBar {
        let bar = Bar::with_draw_target(Some(0), ProgressDrawTarget::stderr()).with_message(what);
        bar.set_style(bar_style(unit));
        ProgressBar { bar, unit }
    }

    /// Work whose end is not known: `what`, and the time since it began.
    pub(super) fn without_end(what: &'static str) -> ProgressBar {
        let bar = Bar::with_draw_target(None, ProgressDrawTarget::stderr()).with_message(what);
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}  {elapsed}").expect("the template is valid"));
        bar.enable_steady_tick(Duration::from_millis(100));
        ProgressBar { bar, unit: Unit::Entries }
    }

    pub(super) fn show(&self, done: u64, total: u64) {
        if self.bar.length() != Some(total) {
            self.bar.set_length(total);
        }
        self.bar.set_position(done.min(total));
    }

    /// The next part of the work begins, which counts from 0 again.
    pub(super) fn begin(&mut self, what: &'static str, unit: Unit) {
        if self.bar.message() != what || self.unit != unit {
            self.unit = unit;
            self.bar.reset();
            self.bar.set_message(what);
            self.bar.set_style(bar_style(unit));
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn bar_style(unit: Unit) -> ProgressStyle {
    let style = ProgressStyle::with_template(unit.template()).expect("the template is valid");
    // Its own rate of a count has four digits after the point.
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        let _ = write!(out, "{:.0} entries/s", state.per_sec());
    };
    style.progress_chars("##-").with_key("rate", rate)
}
