//! A client's dedicated connections to an upstream Redis: opening, releasing, and the pushes that
//! arrive on them.
//!
//! A client needs a dedicated connection for state that lasts: SELECT of another database, another
//! user, WATCH, CLIENT TRACKING. While it has one, all its commands on data go over it, past the
//! copies in the memory tier. Subscriptions have a second one, which always speaks RESP3. A push is
//! passed on in its place among the replies.
//!
//! If a dedicated connection is lost, its state is lost too. Larder then closes the client's
//! connection, as a restarting Redis would, and the client subscribes or selects again.
use super::replies::{error_text, is_error};
use crate::session::{Session, Watch};
use bytes::Bytes;
use larder_proto::output::{Mark, Output};
use larder_source::{DedicatedConnection, RawReplies, SourceError};
use std::{
    mem,
    sync::atomic::Ordering::Relaxed,
    task::{Context, Poll},
};

impl Session {
    /// Updates what other clients see of the subscriptions (CLIENT LIST).
    pub(crate) fn note_subscriptions(&self) {
        self.client.subscribed.store(self.has_subscriptions(), Relaxed);
        self.client.about.lock().subscriptions = match &self.subscriptions {
            Some(subscriptions) => subscriptions.counts(),
            None => self
                .upstream
                .subscriptions()
                .fold([0; 3], |sums, subscribed| std::array::from_fn(|kind| sums[kind] + subscribed.counts[kind])),
        };
    }

    /// Whether the client has state at the upstream for which pushes may arrive.
    pub fn has_upstream_state(&self) -> bool {
        self.upstream.tracking || self.upstream.database.is_some() || self.upstream.subscriptions().next().is_some()
    }

    /// Whether only subscription commands are allowed: RESP2 with subscriptions.
    pub(crate) fn is_subscriber(&self) -> bool {
        !self.resp3 && self.has_subscriptions()
    }

    /// Whether the client has subscriptions. MONITOR is none.
    pub(crate) fn has_subscriptions(&self) -> bool {
        self.subscriptions.is_some() || self.upstream.subscriptions().any(|subscribed| subscribed.monitor.is_none())
    }

    /// Passes on the received pushes, if there is an output to write to.
    ///
    /// # Errors
    /// A dedicated connection is lost, or it exceeded `max-backlog`.
    pub fn poll_pushes(&mut self, cx: &mut Context<'_>, out: Option<&mut Output>) -> Poll<Result<(), SourceError>> {
        for own in self.own_connections() {
            own.pushes().wait(cx)?;
        }
        let Some(out) = out else { return Poll::Pending };
        let mut came = false;
        let mut changed = false;
        let (resp3, counters) = (self.resp3, self.counters.clone());
        let mut state = self.change();
        let upstream = &mut state.upstream;
        for subscribed in upstream.subscribed.iter_mut().chain(&mut upstream.shards) {
            let before = subscribed.counts;
            came |= subscribed.take(u64::MAX, out, resp3, &counters);
            changed |= subscribed.counts != before;
        }
        drop(state);
        if changed {
            self.note_subscriptions();
        }
        came |= self.pass_pushes(out);
        self.write_held_pushes(out);
        if came { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Whether a dedicated connection was closed because its unread pushes exceeded `max-backlog`.
    pub fn exceeded_backlog(&self) -> bool {
        self.own_connections().any(|own| own.pushes().is_too_much())
    }

    /// Bytes of memory that undelivered pushes occupy.
    pub(crate) fn push_bytes(&self) -> usize {
        self.upstream.held_pushes.owned() + self.own_connections().map(|own| own.pushes().owned()).sum::<usize>()
    }

    fn own_connections(&self) -> impl Iterator<Item = &dyn DedicatedConnection> {
        self.upstream.subscriptions().map(|subscribed| &*subscribed.relay).chain(self.dedicated.as_deref())
    }

    /// Passes on the pushes that came before the next reply of the dedicated connection. Returns
    /// whether there were any.
    fn pass_pushes(&mut self, out: &mut Output) -> bool {
        let silent = self.is_silent();
        let passed = self.upstream.passed;
        let mut came = false;
        while let Some(frame) = self.dedicated.as_ref().and_then(|dedicated| dedicated.pushes().next(passed)) {
            let Some(frame) = self.known_invalidation(frame) else { continue };
            if silent {
                self.change().upstream.held_pushes.put(&frame)
            } else {
                out.put(&frame)
            }
            self.counters.tracking_invalidations.add(1);
            came = true;
        }
        came
    }

    /// Holds back what a command wrote after `mark`, because replies are suppressed now.
    pub(crate) fn hold_pushes(&mut self, out: &mut Output, mark: Mark) {
        self.change().upstream.held_pushes.append(&mut out.split_off(mark));
    }

    /// Writes the pushes that were held back while a reply was suppressed.
    pub(crate) fn write_held_pushes(&mut self, out: &mut Output) {
        if !self.upstream.held_pushes.is_empty() {
            out.append(&mut self.change().upstream.held_pushes);
        }
    }

    #[inline]
    fn count_error(&self, reply: &[u8]) {
        if is_error(reply) {
            self.counters.redis_error(error_text(reply));
        }
    }

    /// Passes on a reply, or a part of one, that did not come over a dedicated connection.
    pub(crate) fn pass_part(&self, reply: Bytes, out: &mut Output) {
        self.count_error(&reply);
        out.put_bytes(reply);
    }

    /// Ends the client's connection, once what it has begun is answered, if a reply broke the
    /// protocol: the client cannot know which reply answers which command.
    pub(crate) fn end_if_broken(&self, replies: &RawReplies) {
        if replies.is_broken() {
            self.client.finish();
        }
    }

    /// Passes on replies with the pushes between them, and counts errors.
    pub(crate) fn pass_on(&mut self, replies: &RawReplies, out: &mut Output) {
        self.end_if_broken(replies);
        replies.iter().for_each(|reply| self.count_error(reply));
        self.pass_replies(replies, out);
    }

    /// Passes on replies with the pushes between them.
    fn pass_replies(&mut self, replies: &RawReplies, out: &mut Output) {
        if self.dedicated.is_none() || !self.upstream.tracking {
            self.change().upstream.passed += replies.iter().len() as u64;
            return out.put_bytes(replies.bytes().clone());
        }
        for reply in replies.iter() {
            self.pass_pushes(out);
            out.put(reply);
            self.skip_reply();
        }
    }

    /// Counts the replies of a transaction's commands and of EXEC. The caller then passes on EXEC's
    /// reply only, so this writes the pushes that came before it.
    pub(crate) fn skip_replies(&mut self, count: usize, out: &mut Output) {
        self.change().upstream.passed += count as u64;
        self.pass_pushes(out);
        self.skip_reply();
    }
    /// Counts a reply of the dedicated connection that is not passed on.
    pub(crate) fn skip_reply(&mut self) {
        self.change().upstream.passed += 1;
    }

    /// Gives the client a dedicated connection.
    pub(crate) fn dedicate(&mut self, dedicated: Box<dyn DedicatedConnection>) {
        let mut state = self.change();
        state.upstream.passed = dedicated.pushes().requests();
        state.upstream.changed_user = false;
        state.dedicated = Some(dedicated);
    }
    /// Releases the dedicated connection if no state needs it any more. It can then serve another
    /// client.
    pub(crate) fn release_dedicated(&mut self) {
        let state = &self.upstream;
        if !matches!(self.watch, Watch::Upstream) && !state.tracking && state.database.is_none() {
            let mut state = self.change();
            let is_of_other = mem::take(&mut state.upstream.changed_user);
            let not_needed = state.dedicated.take().filter(|_| !is_of_other);
            not_needed.into_iter().for_each(DedicatedConnection::release);
        }
    }
}
