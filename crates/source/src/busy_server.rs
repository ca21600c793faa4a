//! Commands in flight that may keep a server busy for longer than `source-timeout`.
//!
//! A server runs one command at a time, so the commands of all other clients wait too. They would
//! reach their deadline although the server is only late. So while such a command of this process
//! is in flight, the deadlines of requests that were sent are put off, up to that command's own
//! limit. From outside, a server that is busy looks like one that hangs: without such a command,
//! deadlines hold.
use super::{source_limits::SourceLimits, upstream_commands::BusyFor};
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

/// A command of [`BusyFor::Moment`] may take this many times `source-timeout`.
const MOMENT: u32 = 5;

/// The commands in flight of all cores that may keep one server busy.
#[derive(Debug)]
pub(super) struct BusyServer {
    limits: [Duration; 2],
    /// A command that has run for less does not explain why others are late.
    least: Duration,
    commands: Mutex<BusyCommands>,
}
#[derive(Debug, Default)]
struct BusyCommands {
    next: u64,
    /// When each began, and its number; by [`BusyFor`].
    in_flight: [BTreeSet<(Instant, u64)>; 2],
    /// When one of them last ended that others may have waited for.
    ended: Option<Instant>,
}

/// Such a command that was written. If it is dropped before its [`end`](BusyCommand::end), nothing is
/// known about it any more, and it explains nothing.
#[derive(Debug)]
pub(super) struct BusyCommand {
    server: Arc<BusyServer>,
    class: usize,
    begun: (Instant, u64),
}

impl BusyServer {
    pub(super) fn new(limits: &SourceLimits) -> BusyServer {
        let slow = limits.slow_timeout;
        BusyServer {
            limits: [(limits.timeout * MOMENT).min(slow), slow],
            least: limits.timeout / 2,
            commands: Mutex::default(),
        }
    }

    /// Such a command is written.
    pub(super) fn begin(self: &Arc<Self>, busy: BusyFor) -> BusyCommand {
        self.begin_at(busy, Instant::now())
    }
    fn begin_at(self: &Arc<Self>, busy: BusyFor, now: Instant) -> BusyCommand {
        let class = busy as usize;
        let mut commands = self.commands.lock();
        commands.next += 1;
        let begun = (now, commands.next);
        commands.in_flight[class].insert(begun);
        BusyCommand { server: self.clone(), class, begun }
    }

    /// Until when the server may answer nothing because of these commands, if that is later than
    /// `now`.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        let commands = self.commands.lock();
        let until = |(in_flight, limit): (&BTreeSet<(Instant, u64)>, Duration)| {
            // The oldest: if it is answered, the server answers.
            let begun = in_flight.first()?.0;
            (begun + self.least <= now).then(|| begun + limit)
        };
        let in_flight = commands.in_flight.iter().zip(self.limits).filter_map(until);
        // The server now works through what has waited.
        let ended = commands.ended.map(|ended| ended + self.least * 2);
        in_flight.chain(ended).max().filter(|until| *until > now)
    }
}

impl BusyCommand {
    /// The command was answered at this moment.
    pub(super) fn end(self, now: Instant) {
        if now >= self.begun.0 + self.server.least {
            self.server.commands.lock().ended = Some(now);
        }
    }
}

impl Drop for BusyCommand {
    fn drop(&mut self) {
        self.server.commands.lock().in_flight[self.class].remove(&self.begun);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Arc<BusyServer> {
        let limits = SourceLimits { slow_timeout: Duration::from_secs(60), ..SourceLimits::SMALLEST };
        Arc::new(BusyServer::new(&limits))
    }

    #[test]
    fn deadlines_are_put_off_while_the_oldest_command_may_run() {
        let (server, begin) = (server(), Instant::now());
        let after = |seconds| begin + Duration::from_secs_f64(seconds);
        let waits = |seconds| server.until(after(seconds)).is_some();
        assert!(!waits(1.0), "nothing runs");
        let moment = server.begin_at(BusyFor::Moment, begin);
        assert!(!waits(0.4), "it has not run for long");
        assert!(waits(0.6) && waits(4.9) && !waits(5.1));
        let later = server.begin_at(BusyFor::Moment, begin);
        moment.end(after(0.4));
        assert!(waits(4.9) && !waits(5.1), "it was short, so it explains nothing");
        let long = server.begin_at(BusyFor::Long, begin);
        assert!(waits(5.1) && waits(59.0) && !waits(60.1));
        long.end(after(0.4));
        assert!(!waits(5.1));
        later.end(after(0.4));
        assert!(!waits(1.0));
    }

    #[test]
    fn what_has_waited_gets_its_time_afterwards() {
        let (server, begin) = (server(), Instant::now());
        let now = begin + Duration::from_secs(10);
        server.begin_at(BusyFor::Long, begin).end(now);
        assert!(server.until(now + Duration::from_millis(900)).is_some());
        assert!(server.until(now + Duration::from_millis(1100)).is_none());
    }

    #[test]
    fn what_was_not_answered_explains_nothing_afterwards() {
        let (server, begin) = (server(), Instant::now());
        let now = begin + Duration::from_secs(10);
        let lost = server.begin_at(BusyFor::Long, begin);
        assert!(server.until(now).is_some());
        drop(lost);
        assert!(server.until(now).is_none());
    }
}
