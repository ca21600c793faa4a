//! epoll(7), level-triggered, with timeouts in nanoseconds (epoll_pwait2, Linux 5.11).
use anyhow::Context;
use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, CreateFlags, Event, EventData, EventFlags},
    },
};
use std::{
    num::NonZeroU64,
    os::fd::{AsFd, OwnedFd},
};

/// What to wait for, and what happened.
pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poll {
    /// Waits for nothing yet. The calling thread's timers become as exact as the kernel makes them.
    pub(crate) fn new() -> anyhow::Result<Poll> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("cannot create an epoll")?;
        // By default a thread's timers may be 50 µs late.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
            .context("cannot make this thread's timers exact")?;
        Ok(Poll { epoll, events: Vec::with_capacity(1024) })
    }

    fn flags(write: bool) -> EventFlags {
        if write { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
    }

    /// Waits for reading, perhaps also for writing; `token` names it in events. A closed file
    /// leaves by itself.
    pub(crate) fn add(&self, file: impl AsFd, token: usize, write: bool) -> std::io::Result<()> {
        Ok(epoll::add(&self.epoll, file, EventData::new_u64(token as u64), Poll::flags(write))?)
    }

    /// Waits also for writing, or no longer.
    pub(crate) fn modify(&self, file: impl AsFd, token: usize, write: bool) -> std::io::Result<()> {
        Ok(epoll::modify(&self.epoll, file, EventData::new_u64(token as u64), Poll::flags(write))?)
    }

    /// Waits until something happens or `timeout` (ns) has passed; number of events.
    pub(crate) fn wait(&mut self, timeout: u64) -> anyhow::Result<usize> {
        let timeout = Timespec { tv_sec: (timeout / 1_000_000_000) as i64, tv_nsec: (timeout % 1_000_000_000) as i64 };
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(self.events.len()),
            Err(error) => Err(error).context("cannot wait for the connections"),
        }
    }

    /// An event of the last wait: whose, and whether it can be written to.
    pub(crate) fn event(&self, number: usize) -> (usize, bool) {
        let event = self.events[number];
        let flags = event.flags;
        (event.data.u64() as usize, flags.contains(EventFlags::OUT))
    }
}
