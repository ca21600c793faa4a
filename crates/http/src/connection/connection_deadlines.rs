//! Deadlines and drain for the connections of a worker, without a timer for each.
//!
//! A busy connection only notes how long it may stay silent, in ticks; a task that runs while there
//! are connections counts the ticks and wakes those whose time is over; they then look at
//! [`ConnectionDeadline::verdict`].
use larder_base::lifecycle::{drain_phase::Phase, ticks::TICK};
use larder_core::app::App;
use slab::Slab;
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

#[derive(Debug, Default)]
pub(crate) struct ConnectionDeadlines {
    connections: RefCell<Slab<Rc<Deadline>>>,
    ticks: Cell<u64>,
    ticking: Cell<bool>,
    draining: Cell<bool>,
}

#[derive(Debug)]
struct Deadline {
    tick: Cell<u64>,
    waker: Waker,
}

pub(crate) struct ConnectionDeadline {
    deadlines: Rc<ConnectionDeadlines>,
    deadline: Rc<Deadline>,
    index: usize,
}

/// What a connection that was woken should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Live,
    /// Finish what was started, then close.
    Drain,
    Expired,
}

impl ConnectionDeadlines {
    pub(crate) fn draining(&self) -> bool {
        self.draining.get()
    }
}

impl ConnectionDeadline {
    /// Watches the calling task's connection, without a deadline yet.
    pub(crate) async fn begin(app: &Arc<App>, deadlines: &Rc<ConnectionDeadlines>) -> ConnectionDeadline {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let deadline = Rc::new(Deadline { tick: Cell::new(u64::MAX), waker });
        let index = deadlines.connections.borrow_mut().insert(deadline.clone());
        if !deadlines.ticking.replace(true) {
            tokio::task::spawn_local(tick(app.clone(), deadlines.clone()));
        }
        ConnectionDeadline { deadlines: deadlines.clone(), deadline, index }
    }

    /// The connection may wait this long from now (and up to two ticks more); `None`: for ever.
    pub(crate) fn allow(&self, time: Option<Duration>) {
        let tick = time.map_or(u64::MAX, |time| {
            let ticks = time.as_millis().div_ceil(TICK.as_millis()) as u64;
            // One tick may have come and not be counted, because this thread was busy, and the time
            // to the tick after it may be over.
            self.deadlines.ticks.get().saturating_add(ticks).saturating_add(2)
        });
        self.deadline.tick.set(tick);
    }

    /// What has become of the connection's time. An expiry is told before a drain.
    pub(crate) fn verdict(&self) -> Verdict {
        let deadlines = &self.deadlines;
        if self.deadline.tick.get() <= deadlines.ticks.get() {
            Verdict::Expired
        } else if deadlines.draining.get() {
            Verdict::Drain
        } else {
            Verdict::Live
        }
    }
}
impl Drop for ConnectionDeadline {
    fn drop(&mut self) {
        let gone = self.deadlines.connections.borrow_mut().remove(self.index);
        drop(gone);
    }
}

/// Counts ticks and wakes the connections that are late, until no connection is left; the next
/// connection starts it again.
async fn tick(app: Arc<App>, deadlines: Rc<ConnectionDeadlines>) {
    let mut draining = pin!(app.drain.reached(Phase::Draining));
    loop {
        tokio::select! {
            biased;
            () = &mut draining, if !deadlines.draining.get() => deadlines.draining.set(true),
            () = app.ticks.next() => deadlines.ticks.set(deadlines.ticks.get() + 1),
        }
        let connections = deadlines.connections.borrow();
        if connections.is_empty() {
            deadlines.ticking.set(false);
            return;
        }
        for (_, connection) in connections.iter() {
            // Draining connections are woken at every tick: one that was answering when the drain began looks
            // again.
            if deadlines.draining.get() || connection.tick.get() <= deadlines.ticks.get() {
                connection.waker.wake_by_ref();
            }
        }
    }
}

#[cfg(test)]
impl ConnectionDeadlines {
    pub(crate) fn len(&self) -> usize {
        self.connections.borrow().len()
    }

    /// Connections without a deadline: their requests are in work.
    pub(crate) fn unlimited(&self) -> usize {
        self.connections.borrow().iter().filter(|(_, deadline)| deadline.tick.get() == u64::MAX).count()
    }
}
