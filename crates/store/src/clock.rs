//! The one place that reads clocks; everything below takes the time as an argument.
//!
//! Lifetimes go by the process's clock ([`now`]), which is never set. Moments that other programs know
//! (`EXPIREAT`, files, other nodes) are moments of the wall clock: [`to_wall`] and [`of_wall`]
//! convert them.
use larder_engine::Millis;
use rustix::time::{ClockId, clock_gettime};
use std::{
    sync::{
        LazyLock,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A clock that is never set. It goes on while the machine sleeps, where the system has such a one.
#[cfg(target_os = "linux")]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const STEADY: ClockId = ClockId::Monotonic;

/// The wall clock at the start minus the steady clock, nanoseconds.
static START: LazyLock<i64> = LazyLock::new(|| difference().0);

/// How far the wall clock has been set since the start, ms; [`notice_steps`] keeps it.
static STEPS: AtomicI64 = AtomicI64::new(0);

/// The wall clock is adjusted gradually by less than this, ms. It only counts as set beyond it.
const STEP: i64 = 500;

/// Readings of both clocks that lie further apart than this say nothing, nanoseconds: the thread had
/// to wait between them.
const PAUSE: i64 = 50_000_000;

/// Milliseconds since the Unix epoch, by the process's clock: the wall clock at the start, and from
/// there on by a clock that is never set.
pub fn now() -> Millis {
    #[cfg(feature = "simulated-clock")]
    if let Some(simulated) = simulated::NOW.get() {
        return simulated;
    }
    let now = Millis::try_from(START.saturating_add(steady()) / 1_000_000).unwrap_or(0);
    now.saturating_add_signed(SHIFT.load(Relaxed))
}

/// Milliseconds since the Unix epoch, by the wall clock.
pub fn wall() -> Millis {
    to_wall(now())
}

/// The moment of the wall clock for a moment of the process's clock.
pub fn to_wall(at: Millis) -> Millis {
    at.saturating_add_signed(STEPS.load(Relaxed))
}

/// The moment of the process's clock for a moment of the wall clock.
pub fn of_wall(at: Millis) -> Millis {
    at.saturating_add_signed(-STEPS.load(Relaxed))
}

/// Looks whether the wall clock was set. Returns by how many milliseconds, if it was. Called again
/// and again by one thread.
pub fn notice_steps() -> Option<i64> {
    let (difference, pause) = difference();
    let step = step(difference - *START, pause, STEPS.load(Relaxed))?;
    STEPS.fetch_add(step, Relaxed);
    Some(step)
}

/// By how many milliseconds the wall clock was set, if it was: it has moved against the steady clock
/// by `moved` nanoseconds since the start, of which `known` milliseconds are known.
fn step(moved: i64, pause: i64, known: i64) -> Option<i64> {
    let step = moved / 1_000_000 - known;
    (pause <= PAUSE && step.abs() >= STEP).then_some(step)
}

/// The wall clock minus the steady clock, and how long the thread had to wait between the readings,
/// nanoseconds: the best of some tries.
fn difference() -> (i64, i64) {
    let read = |_| {
        let before = steady();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (nanos(wall).saturating_sub(before), steady() - before)
    };
    (0..5).map(read).min_by_key(|(_, pause)| *pause).unwrap_or_default()
}

fn steady() -> i64 {
    let now = clock_gettime(STEADY);
    now.tv_sec as i64 * 1_000_000_000 + now.tv_nsec as i64
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// The wall clock to the microsecond, as Redis tells it.
pub fn since_epoch() -> Duration {
    let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let shift = SHIFT.load(Relaxed);
    let by = Duration::from_millis(shift.unsigned_abs());
    if shift < 0 { system.saturating_sub(by) } else { system.saturating_add(by) }
}

/// How far [`shift`] has moved the clock, ms. The one global of the program, like the clock itself:
/// a reader of the one must see the other (decision 0078).
static SHIFT: AtomicI64 = AtomicI64::new(0);

/// Sets the clock forward by so many milliseconds, or back, for the whole process: for a rehearsal
/// of what a wrong clock does.
pub fn shift(by: i64) {
    SHIFT.fetch_add(by, Relaxed);
}

/// For simulations, which tests alone switch on: this thread's clock stands at a moment until it is
/// set again; `None`: it is the system's.
#[cfg(feature = "simulated-clock")]
pub fn stand_at(now: Option<Millis>) {
    simulated::NOW.set(now);
}

#[cfg(feature = "simulated-clock")]
mod simulated {
    use larder_engine::Millis;
    use std::cell::Cell;

    thread_local! {
        pub(super) static NOW: Cell<Option<Millis>> = const { Cell::new(None) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn a_step_is_told_from_a_pause_and_from_an_adjustment() {
        for (moved, pause, known, expected) in [
            (0, 0, 0, None),
            (-HOUR, 0, 0, Some(-HOUR)),
            (HOUR, 0, 0, Some(HOUR)),
            (HOUR, 0, HOUR, None),
            (0, 0, HOUR, Some(-HOUR)),
            // It is adjusted, not set.
            (499, 0, 0, None),
            (-499, 0, 0, None),
            // The thread had to wait between the readings.
            (2_000, 2_000, 0, None),
            (-HOUR, 51, 0, None),
            (-HOUR, 50, 0, Some(-HOUR)),
        ] {
            let moment = |millis| millis * 1_000_000;
            assert_eq!(step(moment(moved), moment(pause), known), expected, "{moved} {pause} {known}");
        }
    }

    #[test]
    fn the_clocks_agree_while_none_is_set() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as Millis;
        let (now, wall) = (now(), wall());
        assert!(now + 100 >= before && wall >= now, "{before} {now} {wall}");
        assert_eq!((of_wall(to_wall(5)), notice_steps()), (5, None));
    }
}
