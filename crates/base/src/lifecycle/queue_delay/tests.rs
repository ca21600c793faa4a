//! Tests of the watch: by hand, in a simulated core and in a runtime.
use super::*;
use std::{collections::VecDeque, future::poll_fn, mem, task::Poll};

const LIMIT: Duration = Duration::from_millis(10);
fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
fn after(is_standing: bool, last: Duration) -> Admission {
    let line = QueueDelay::new(Some(LIMIT));
    line.restless.set(u32::from(is_standing));
    line.last.set(last);
    line.admission()
}

#[test]
fn a_burst_may_wait_longer_than_a_standing_line() {
    assert_eq!(after(false, ms(90)), Admission::All);
    assert_eq!(after(false, ms(101)), Admission::Nothing);
    assert_eq!(after(true, ms(4)), Admission::All);
    assert_eq!(after(true, ms(6)), Admission::HitsOnly, "hits before misses");
    assert_eq!(after(true, ms(11)), Admission::Nothing);
    assert_eq!(QueueDelay::new(None).admission(), Admission::All);
}

#[test]
fn what_stands_in_the_line_now_counts() {
    let line = QueueDelay::new(Some(LIMIT));
    let now = Instant::now();
    line.restless.set(CALM);
    line.queued.set(Some(now));
    assert_eq!(line.judge(LIMIT, now + ms(1)), Admission::All);
    assert_eq!(line.judge(LIMIT, now + ms(6)), Admission::HitsOnly);
    assert_eq!(line.judge(LIMIT, now + ms(11)), Admission::Nothing);
}

/// Whether delays that follow each other make a standing line.
fn standing(delays: impl IntoIterator<Item = Duration>) -> Option<bool> {
    let start = Instant::now();
    let mut interval = WatchInterval::new(start);
    let (mut now, mut found) = (start, None);
    for delay in delays {
        now += delay;
        found = found.or(interval.note(delay, now));
    }
    found
}

#[test]
fn a_line_stands_if_it_was_never_short_for_an_interval() {
    assert_eq!(standing(vec![ms(9); 5]), None, "too early to say");
    assert_eq!(standing(vec![ms(9); 20]), Some(true));
    // Long and short rounds in turn, as while commands are refused: the core is never free.
    let rounds = (0..40).flat_map(|_| [ms(10), Duration::from_micros(300)]);
    assert_eq!(standing(rounds), Some(true));
    // A core that spins has nothing to do.
    assert_eq!(standing(vec![Duration::from_micros(4); 40_000]), Some(false));
}

/// Goes to the end of the line, as a connection whose socket is ready again. The runtime turns
/// the order of tasks that yield around.
async fn ready_again() {
    let mut was_polled = false;
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if mem::replace(&mut was_polled, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A core with [`Core::CONNECTIONS`] connections, whose clients ask at a rate whatever comes back.
/// Times are in microseconds.
struct Core {
    line: QueueDelay,
    interval: WatchInterval,
    start: Instant,
    now: u64,
    asked: u64,
    between: f64,
    waiting: Vec<VecDeque<u64>>,
    good: u64,
}
impl Core {
    const CONNECTIONS: usize = 50;
    const SERVING: u64 = 130;
    const REFUSING: u64 = 1;
    const TURN: u64 = 10;
    const DEADLINE: u64 = 50_000;

    fn new(load: f64) -> Core {
        let start = Instant::now();
        Core {
            line: QueueDelay::new(Some(LIMIT)),
            interval: WatchInterval::new(start),
            start,
            now: 0,
            asked: 0,
            between: Core::SERVING as f64 / load,
            waiting: vec![VecDeque::new(); Core::CONNECTIONS],
            good: 0,
        }
    }
    fn at(&self, micros: u64) -> Instant {
        self.start + Duration::from_micros(micros)
    }
    fn work(&mut self, micros: u64) {
        self.now += micros;
        while (self.asked as f64 * self.between) as u64 <= self.now {
            let due = (self.asked as f64 * self.between) as u64;
            self.waiting[self.asked as usize % Core::CONNECTIONS].push_back(due);
            self.asked += 1;
        }
    }
    /// Serves what is ready, first come, first served.
    fn round(&mut self) {
        let ready: Vec<_> = (0..Core::CONNECTIONS).filter(|at| !self.waiting[*at].is_empty()).collect();
        for connection in ready {
            self.work(Core::TURN);
            let mut nothing = false;
            for (at, due) in std::mem::take(&mut self.waiting[connection]).into_iter().enumerate() {
                // The first look of a turn counts for 32 commands.
                if at % 32 == 0 {
                    nothing = self.line.judge(LIMIT, self.at(self.now)) == Admission::Nothing;
                }
                self.work(if nothing { Core::REFUSING } else { Core::SERVING });
                self.good += u64::from(!nothing && self.now - due <= Core::DEADLINE);
            }
        }
    }
    /// Commands answered in time, for each that the core could serve.
    fn goodput(mut self) -> f64 {
        const LENGTH: u64 = 4_000_000;
        while self.now < LENGTH {
            self.line.queued.set(Some(self.at(self.now)));
            self.round();
            self.work(5);
            let (now, at) = (self.now, self.at(self.now));
            if self.line.passed(LIMIT, &mut self.interval, at) {
                // The timer is looked at between rounds. The watch then stands at the end of the next.
                while self.now < now + REST.as_micros() as u64 {
                    self.round();
                    self.work(5);
                }
            }
        }
        self.good as f64 / (LENGTH / Core::SERVING) as f64
    }
}

#[test]
fn most_work_is_done_in_time_at_any_load() {
    for load in [1.5, 2.0, 3.0, 4.0, 8.0] {
        let goodput = Core::new(load).goodput();
        assert!(goodput > 0.8, "{goodput} of the capacity at {load} times the capacity");
    }
}

#[test]
fn a_busy_core_is_seen_and_a_free_one_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.expect("a runtime").block_on(async {
        let line = std::rc::Rc::new(QueueDelay::new(Some(ms(2))));
        let watched = line.clone();
        tokio::task::spawn_local(async move { watched.watch().await });
        // Eight connections, each of which keeps the core for a millisecond at a time.
        let busy = std::rc::Rc::new(Cell::new(true));
        for _ in 0..8 {
            let busy = busy.clone();
            tokio::task::spawn_local(async move {
                while busy.get() {
                    let start = Instant::now();
                    while start.elapsed() < ms(1) {
                        std::hint::spin_loop();
                    }
                    ready_again().await;
                }
            });
        }
        while line.admission() != Admission::Nothing || line.delay() < ms(2) {
            sleep(ms(1)).await;
        }
        busy.set(false);
        while line.admission() != Admission::All || line.is_standing() {
            sleep(ms(1)).await;
        }
    });
}
