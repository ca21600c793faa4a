//! Rows of one resolution in a ring of fixed size.
use super::columns::Fold;

/// The length of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The last ten minutes.
    Second,
    /// The last three hours.
    TenSeconds,
    /// The last day.
    Minute,
}

impl Resolution {
    /// All, by what they are as a number.
    pub const ALL: [Resolution; 3] = [Resolution::Second, Resolution::TenSeconds, Resolution::Minute];

    /// As in a query: `1s`, `10s`, `1m`.
    pub fn name(self) -> &'static str {
        match self {
            Resolution::Second => "1s",
            Resolution::TenSeconds => "10s",
            Resolution::Minute => "1m",
        }
    }
    /// Seconds of a step.
    pub fn seconds(self) -> u64 {
        match self {
            Resolution::Second => 1,
            Resolution::TenSeconds => 10,
            Resolution::Minute => 60,
        }
    }
    /// Steps that are kept.
    fn steps(self) -> usize {
        match self {
            Resolution::Second => 600,
            Resolution::TenSeconds => 1080,
            Resolution::Minute => 1440,
        }
    }
}

/// The latest steps, each a row of as many numbers as there are columns.
#[derive(Debug)]
pub(super) struct Ring {
    step: u64,
    width: usize,
    /// Untouched until written, so a young process does not hold it all.
    numbers: Vec<f32>,
    /// The first step ever written and the one that is open, as numbers since the Unix epoch.
    span: Option<(u64, u64)>,
}

impl Ring {
    pub(super) fn new(resolution: Resolution, width: usize) -> Ring {
        Ring { step: resolution.seconds(), width, numbers: vec![0.0; resolution.steps() * width], span: None }
    }

    pub(super) fn bytes(&self) -> usize {
        self.numbers.len() * size_of::<f32>()
    }

    fn steps(&self) -> u64 {
        (self.numbers.len() / self.width.max(1)) as u64
    }

    fn row_mut(&mut self, step: u64) -> &mut [f32] {
        let begin = (step % self.steps()) as usize * self.width;
        &mut self.numbers[begin..begin + self.width]
    }

    fn row(&self, step: u64) -> &[f32] {
        let begin = (step % self.steps()) as usize * self.width;
        &self.numbers[begin..begin + self.width]
    }

    /// Folds a row into the step of `second`. Steps in between are missing. A second before the
    /// open step counts as of that step.
    pub(super) fn put(&mut self, second: u64, row: &[f32], folds: &[Fold]) {
        let step = second / self.step;
        let (first, open) = self.span.unwrap_or((step, step));
        let begun = match self.span {
            None => step,
            Some((_, open)) => (open + 1).max((step + 1).saturating_sub(self.steps())),
        };
        for new in begun..=step {
            self.row_mut(new).fill(f32::NAN);
        }
        let step = step.max(open);
        self.span = Some((first, step));
        for ((kept, value), fold) in self.row_mut(step).iter_mut().zip(row).zip(folds) {
            *kept = fold.of(*kept, *value);
        }
    }

    /// Begins again, without steps.
    pub(super) fn forget(&mut self) {
        self.span = None;
    }

    /// A copy of the steps that are complete and begin after `since` (Unix seconds).
    pub(super) fn rows(&self, since: u64) -> Rows {
        let mut rows = Rows { first: 0, step: self.step, width: self.width, numbers: Vec::new() };
        let Some((first, open)) = self.span else { return rows };
        // A step of one second is complete with its sample.
        let end = if self.step == 1 { open + 1 } else { open };
        let oldest = first.max((open + 1).saturating_sub(self.steps()));
        rows.first = oldest.max(since / self.step + 1).min(end);
        rows.numbers.reserve_exact((end - rows.first) as usize * self.width);
        for step in rows.first..end {
            rows.numbers.extend_from_slice(self.row(step));
        }
        rows
    }
}

/// Consecutive steps, copied.
#[derive(Debug)]
pub(super) struct Rows {
    first: u64,
    step: u64,
    width: usize,
    numbers: Vec<f32>,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.numbers.len() / self.width.max(1)
    }

    /// Each with the Unix second at which it begins.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &[f32])> {
        self.numbers.chunks_exact(self.width).zip(self.first..).map(|(row, step)| (step * self.step, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const FOLDS: [Fold; 3] = [Fold::Sum, Fold::Highest, Fold::Lowest];

    fn text(rows: &Rows) -> String {
        rows.iter().map(|(second, row)| format!("{second}{row:?}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ten_seconds_fold_into_one_step_and_the_open_step_is_not_shown() {
        let mut ring = Ring::new(Resolution::TenSeconds, 3);
        for second in 100..=110 {
            let value = (second % 7) as f32;
            ring.put(second, &[1.0, value, value], &FOLDS);
        }
        assert_eq!(text(&ring.rows(0)), "100[10.0, 6.0, 0.0]");
        assert_eq!(text(&ring.rows(99)), "100[10.0, 6.0, 0.0]");
        assert_eq!(text(&ring.rows(100)), "");
    }

    #[test]
    fn times_without_samples_are_missing() {
        let mut ring = Ring::new(Resolution::Second, 1);
        ring.put(5, &[1.0], &FOLDS);
        ring.put(8, &[2.0], &FOLDS);
        assert_eq!(text(&ring.rows(0)), "5[1.0] 6[NaN] 7[NaN] 8[2.0]");
        // As after a night of sleep.
        ring.put(90_000, &[3.0], &FOLDS);
        assert_eq!(ring.rows(0).len(), 600);
        assert_eq!(text(&ring.rows(89_998)), "89999[NaN] 90000[3.0]");
    }

    proptest! {
        /// The ring has what a map of all samples has, as far as it reaches back.
        #[test]
        fn the_ring_is_the_end_of_all_samples(gaps in prop::collection::vec(0u64..40, 1..400), minute in any::<bool>(), since in 0u64..9000) {
            let resolution = if minute { Resolution::Minute } else { Resolution::Second };
            let (mut ring, mut model, mut second) = (Ring::new(resolution, 1), BTreeMap::new(), 1000);
            for (number, gap) in gaps.iter().enumerate() {
                second += gap;
                ring.put(second, &[number as f32], &FOLDS);
                *model.entry(second / resolution.seconds()).or_insert(0.0) += number as f32;
            }
            let open = second / resolution.seconds();
            let kept = |step: u64| step + resolution.steps() as u64 > open && step * resolution.seconds() > since;
            let complete = |step: u64| !minute || step < open;
            let wanted: Vec<_> = model.iter().filter(|(step, _)| kept(**step) && complete(**step))
                .map(|(step, sum)| (step * resolution.seconds(), *sum)).collect();
            let rows = ring.rows(since);
            let got: Vec<_> = rows.iter().filter(|(_, row)| !row[0].is_nan()).map(|(at, row)| (at, row[0])).collect();
            prop_assert_eq!(got, wanted);
        }
    }
}
