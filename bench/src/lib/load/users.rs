//! Users with think time: each connection is a user, who sends the next request a think time after
//! the last reply.
use anyhow::ensure;
use fastrand::Rng;
use std::{cmp::Reverse, collections::BinaryHeap, fmt, str::FromStr, time::Duration};

/// The longest duration that an option takes: sums of several stay within what nanoseconds in 64
/// bits hold.
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads a duration.
pub(crate) fn duration(text: &str) -> anyhow::Result<Duration> {
    let duration = larder_units::parse_short_duration(text).map_err(anyhow::Error::msg)?;
    ensure!(duration <= LONGEST, "{text:?} is more than a year");
    Ok(duration)
}

/// How long a user thinks between a reply and the next request.
///
/// A time, or a range of which each time is equally likely: `1s`, `500ms-2s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThinkTime {
    least: Duration,
    most: Duration,
}

impl FromStr for ThinkTime {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<ThinkTime> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let (least, most) = (duration(least)?, duration(most)?);
        ensure!(least <= most && most > Duration::ZERO, "{text:?} is no time above 0, nor a range FROM-TO of times");
        Ok(ThinkTime { least, most })
    }
}

impl fmt::Display for ThinkTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = larder_units::show_short_duration;
        match self.least == self.most {
            true => f.write_str(&show(self.most)),
            false => write!(f, "{}-{}", show(self.least), show(self.most)),
        }
    }
}

impl ThinkTime {
    /// A time, ns.
    pub(super) fn sample(self, rng: &mut Rng) -> u64 {
        rng.u64(self.least.as_nanos() as u64..=self.most.as_nanos() as u64)
    }

    /// A random part of the mean, ns: when a user makes its first request. Users that began together
    /// would come in waves.
    pub(super) fn first(self, rng: &mut Rng) -> u64 {
        rng.u64(..=((self.least + self.most) / 2).as_nanos() as u64)
    }
}
/// When a user sends its next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    /// The time at which the user tries to, ns since the start.
    pub(crate) at: u64,
    /// Since when it wants to: earlier, if its connection was down.
    pub(crate) since: u64,
    /// The user's connection.
    pub(crate) user: usize,
}

/// The users of one thread.
pub(crate) struct Users {
    /// Of all users who have no request in flight.
    turns: BinaryHeap<Reverse<Turn>>,
    think: ThinkTime,
    rng: Rng,
}

impl Users {
    /// Users who begin at random times within a mean think time.
    pub(crate) fn new(count: usize, think: ThinkTime, seed: u64) -> Users {
        let mut rng = Rng::with_seed(seed);
        let turns = (0..count).map(|user| {
            let at = think.first(&mut rng);
            Reverse(Turn { at, since: at, user })
        });
        let turns = turns.collect();
        Users { turns, think, rng }
    }

    /// When the next one will send.
    pub(super) fn next(&self) -> Option<u64> {
        self.turns.peek().map(|Reverse(turn)| turn.at)
    }

    /// A turn whose time has come.
    pub(super) fn take(&mut self, now: u64) -> Option<Turn> {
        self.next().filter(|&at| at <= now)?;
        self.turns.pop().map(|Reverse(turn)| turn)
    }

    /// The user cannot send yet: its connection is down.
    pub(super) fn postpone(&mut self, until: u64, since: u64, user: usize) {
        self.turns.push(Reverse(Turn { at: until, since, user }));
    }

    /// The user has its reply, or knows that it will not come, and begins to think.
    pub(super) fn think(&mut self, now: u64, user: usize) {
        let at = now + self.think.sample(&mut self.rng);
        self.turns.push(Reverse(Turn { at, since: at, user }));
    }
}

#[test]
fn a_turn_comes_a_think_time_after_the_reply() {
    let mut users = Users::new(2, "1us-2us".parse().expect("a range"), 1);
    // Both begin within the mean.
    let first = [users.take(1500).expect("one"), users.take(1500).expect("the other")];
    assert!(first[0].at <= first[1].at && first[0].user != first[1].user && users.take(u64::MAX).is_none());
    users.think(100, 7);
    let turn = users.take(2100).expect("its time has come");
    assert!((1100..=2100).contains(&turn.at) && turn.since == turn.at && turn.user == 7, "{turn:?}");
    users.postpone(5000, turn.since, 7);
    assert_eq!((users.next(), users.take(4999)), (Some(5000), None));
    assert_eq!(users.take(5000), Some(Turn { at: 5000, ..turn }));
}

#[test]
fn times_and_ranges_are_read_and_drawn() {
    let range: ThinkTime = "500ms-2s".parse().expect("a range");
    assert_eq!(range.to_string(), "500ms-2s");
    let mut rng = Rng::with_seed(1);
    let drawn: Vec<f64> = (0..10_000).map(|_| range.sample(&mut rng) as f64 / 1e9).collect();
    assert!(drawn.iter().all(|time| (0.5..=2.0).contains(time)));
    let mean = drawn.iter().sum::<f64>() / 1e4;
    assert!((mean - 1.25).abs() < 0.02, "{mean}");
    let fixed: ThinkTime = "1s".parse().expect("a time");
    assert_eq!((fixed.to_string().as_str(), fixed.sample(&mut rng)), ("1s", 1_000_000_000));
    for wrong in ["", "0s", "2s-1s", "x", "1s-"] {
        wrong.parse::<ThinkTime>().expect_err(wrong);
    }
}
