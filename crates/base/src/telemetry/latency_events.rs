//! Latency events: by name, how long the slowest took in each of the latest seconds that had any.
//! Redis calls this its latency monitor.
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Samples of each event; as in Redis.
const MOST: usize = 160;

/// What the samples of one event say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencySummary {
    /// The event.
    pub name: &'static str,
    /// The second of the latest sample, since the Unix epoch.
    pub at: u64,
    /// The latest sample, milliseconds.
    pub latest: u64,
    /// The longest since the latest reset, milliseconds.
    pub longest: u64,
    /// The mean of the samples that are kept, milliseconds.
    pub mean: u64,
    /// How many samples are kept.
    pub samples: usize,
}

#[derive(Debug, Default)]
struct EventSamples {
    /// Second and milliseconds, the oldest first.
    samples: VecDeque<(u64, u64)>,
    longest: u64,
}

#[derive(Debug, Default)]
pub(super) struct LatencyEvents(BTreeMap<&'static str, EventSamples>);

impl LatencyEvents {
    /// Adds a sample. Of several in one second the longest stays.
    pub(super) fn add(&mut self, name: &'static str, at: Duration, took: Duration) {
        let event = self.0.entry(name).or_default();
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        event.longest = event.longest.max(millis);
        match event.samples.back_mut() {
            Some((second, longest)) if *second == at.as_secs() => *longest = millis.max(*longest),
            _ => {
                if event.samples.len() == MOST {
                    event.samples.pop_front();
                }
                event.samples.push_back((at.as_secs(), millis));
            }
        }
    }
    pub(super) fn latest(&self) -> Vec<LatencySummary> {
        let summary = |(name, event): (&&'static str, &EventSamples)| {
            let (at, latest) = *event.samples.back()?;
            let (samples, sum) = (event.samples.len(), event.samples.iter().map(|(_, millis)| millis).sum::<u64>());
            Some(LatencySummary {
                name,
                at,
                latest,
                longest: event.longest,
                mean: sum / samples.max(1) as u64,
                samples,
            })
        };
        self.0.iter().filter_map(summary).collect()
    }
    pub(super) fn samples(&self, name: &[u8]) -> Vec<(u64, u64)> {
        let event = self.0.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
        event.map(|(_, event)| event.samples.iter().copied().collect()).unwrap_or_default()
    }
    /// Forgets the events with these names, or all. Returns how many there were.
    pub(super) fn reset(&mut self, is_named: impl Fn(&str) -> bool) -> usize {
        let before = self.0.len();
        self.0.retain(|name, _| !is_named(name));
        before - self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_longest_and_the_oldest_go() {
        let (second, millis) = (Duration::from_secs, Duration::from_millis);
        let mut events = LatencyEvents::default();
        events.add("command", second(10), millis(5));
        events.add("command", second(10) + millis(999), millis(7));
        events.add("command", second(10), millis(6));
        events.add("fast-command", second(11), millis(3));
        events.add("command", second(12), millis(2));
        assert_eq!(events.samples(b"COMMAND"), [(10, 7), (12, 2)]);
        let latest = events.latest();
        assert_eq!(latest[0], LatencySummary { name: "command", at: 12, latest: 2, longest: 7, mean: 4, samples: 2 });
        (0..200).for_each(|at| events.add("command", second(100 + at), millis(1)));
        assert_eq!((events.samples(b"command").len(), events.samples(b"command")[0].0), (160, 140));
        assert_eq!(events.latest()[0].longest, 7, "of all since the reset");
        assert_eq!(events.reset(|name| name == "command"), 1);
        assert!(events.samples(b"command").is_empty() && events.latest().len() == 1);
        assert_eq!((events.reset(|_| true), events.reset(|_| true)), (1, 0));
    }
}
