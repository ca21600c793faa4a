//! Which transactions have changed a key, and whether a fetch has seen them.
//!
//! PostgreSQL writes the record of a commit, which the change stream reads, before the commit is
//! visible to other sessions (with a synchronous standby: long before). A fetch between the two
//! reads the old row after its change was announced, and nothing would ever correct that copy. So a
//! fetch reports its snapshot, and the source vouches for a row only if the snapshot sees all
//! transactions that were announced for its key. A change that is announced later fences the
//! flight or removes the copy, like those of any source.
//!
//! The table has a fixed size. A place holds the last three transactions of all keys that hash to
//! it; of those that had to leave, the latest one, and then all before it must be over.
use super::{
    snapshot::{Snapshot, full_xid},
    watches::KeyKind,
};
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use std::{hash::BuildHasher as _, sync::Arc};

/// Places: a mebibyte.
const PLACES: usize = 1 << 15;

/// What was announced, and the fetches that are under way.
#[derive(Default)]
pub(in crate::postgres) struct Announced(Mutex<State>);

#[derive(Default)]
struct State {
    /// While changes are announced.
    live: Option<Live>,
    /// How often that began.
    epoch: u64,
    places: Box<[Place]>,
    /// The last transaction that was announced.
    last: u64,
    /// A snapshot that is not later than any that a fetch can still come with. What it sees, all
    /// see.
    floor: Snapshot,
    /// The next floor, once the fetches that began before it have ended.
    next_floor: Option<Snapshot>,
    /// Fetches under way that began before `next_floor`, and since.
    earlier: usize,
    since: usize,
    /// How often `next_floor` was set.
    generation: u64,
}

struct Live {
    /// Changes come too late to count on.
    is_late: bool,
    /// Who announces.
    server: Box<str>,
    /// The stream has not announced what transactions before this one changed.
    first: u64,
    /// Rows may be read from standbys.
    from_replicas: bool,
    /// How the columns are written that keys are made of: by group and prefix.
    kinds: Vec<(usize, Box<str>, Vec<KeyKind>)>,
}

#[derive(Default, Clone, Copy)]
struct Place {
    /// 0: none.
    exact: [u64; 3],
    /// The latest that did not stay in `exact`; 0: none.
    others: u64,
}
impl Place {
    fn add(&mut self, xid: u64, floor: &Snapshot) {
        if self.exact.contains(&xid) {
            return;
        }
        if self.others < floor.xmin() {
            self.others = 0;
        }
        match self.exact.iter_mut().find(|exact| floor.sees(**exact)) {
            Some(free) => *free = xid,
            None => {
                self.others = self.others.max(self.exact[0]);
                self.exact = [self.exact[1], self.exact[2], xid];
            }
        }
    }
    fn is_seen_by(&self, snapshot: &Snapshot) -> bool {
        self.exact.iter().all(|xid| snapshot.sees(*xid)) && (self.others == 0 || self.others < snapshot.xmin())
    }
}

impl Announced {
    /// Changes are announced from now on: of all transactions that are not over before `first`.
    pub(super) fn start(
        &self,
        server: &str,
        first: u64,
        from_replicas: bool,
        kinds: Vec<(usize, Box<str>, Vec<KeyKind>)>,
    ) {
        let mut state = self.0.lock();
        state.places = vec![Place::default(); PLACES].into();
        state.live = Some(Live { is_late: false, server: server.into(), first, from_replicas, kinds });
        state.epoch += 1;
        (state.last, state.floor, state.next_floor) = (first, Snapshot::before(first), None);
    }
    /// They are not announced any more. Those between now and the next
    /// [`start`](Announced::start) will never be.
    pub(super) fn stop(&self) {
        self.0.lock().live = None;
    }
    /// They are announced, but too late, or in time again.
    pub(super) fn set_late(&self, is_late: bool) {
        if let Some(live) = &mut self.0.lock().live {
            live.is_late = is_late;
        }
    }
    /// The full id of a transaction of the stream.
    pub(super) fn full_xid(&self, low: u32) -> u64 {
        let mut state = self.0.lock();
        state.last = full_xid(low, state.last);
        state.last
    }
    /// This transaction has changed a key with this hash. Call it before the key is invalidated.
    pub(super) fn add(&self, hash: u64, xid: u64) {
        let state = &mut *self.0.lock();
        if let Some(place) = place(&mut state.places, hash) {
            place.add(xid, &state.floor);
        }
    }
    /// Whether a fetch is under way that may have been vouched for, and whose row is not stored yet.
    pub(super) fn are_fetched(&self) -> bool {
        let state = self.0.lock();
        state.earlier + state.since > 0
    }
    /// A statement is sent that fetches rows.
    pub(in crate::postgres) fn begin(self: &Arc<Announced>) -> Ticket {
        let mut state = self.0.lock();
        state.since += 1;
        Ticket { of: self.clone(), epoch: state.epoch, generation: state.generation }
    }
}

fn place(places: &mut [Place], hash: u64) -> Option<&mut Place> {
    let at = usize::try_from(hash).unwrap_or(usize::MAX) & (PLACES - 1);
    places.get_mut(at)
}

/// A statement that fetches rows, until its answer was handled.
pub(in crate::postgres) struct Ticket {
    of: Arc<Announced>,
    epoch: u64,
    generation: u64,
}
impl Ticket {
    /// Says which keys of the answer are worth a copy; `None`: none is. `seen` is what
    /// [`SEEN`](super::snapshot::SEEN) gave in the statement.
    pub(in crate::postgres) fn vouches(&self, seen: &str) -> Option<Vouching<'_>> {
        let seen = Snapshot::read(seen)?;
        let mut state = self.of.0.lock();
        let live = state.live.as_ref().filter(|live| !live.is_late)?;
        let is_known = if seen.is_standby { live.from_replicas } else { *seen.server == *live.server };
        if !is_known || self.epoch != state.epoch || seen.snapshot.xmin() < live.first {
            return None;
        }
        // Snapshots of standbys are not in one order with those of the primary.
        if !live.from_replicas && state.earlier == 0 && state.next_floor.is_none() {
            state.next_floor = Some(seen.snapshot.clone());
            (state.earlier, state.since) = (state.since, 0);
            state.generation += 1;
        }
        Some(Vouching { of: &self.of, epoch: self.epoch, snapshot: seen.snapshot })
    }
}
impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.of.0.lock();
        if self.generation == state.generation {
            state.since -= 1;
            return;
        }
        state.earlier -= 1;
        if state.earlier == 0
            && let Some(floor) = state.next_floor.take()
        {
            state.floor = floor;
        }
    }
}

/// What one statement has seen.
pub(in crate::postgres) struct Vouching<'t> {
    of: &'t Announced,
    epoch: u64,
    snapshot: Snapshot,
}
impl Vouching<'_> {
    /// Whether the statement has seen all that was announced for a key, and the next change will
    /// be. `rest` is the key without the prefix of its query.
    pub(in crate::postgres) fn vouches_for(&self, group: usize, prefix: &str, rest: &[u8]) -> bool {
        let state = &mut *self.of.0.lock();
        let Some(live) = state.live.as_ref().filter(|live| !live.is_late && state.epoch == self.epoch) else {
            return false;
        };
        let mut kinds = live.kinds.iter().filter(|(of, with, _)| *of == group && **with == *prefix);
        if !kinds.all(|(_, _, kinds)| are_written(kinds, rest)) {
            return false;
        }
        let mut sees = |hash| place(&mut state.places, hash).is_some_and(|place| place.is_seen_by(&self.snapshot));
        sees(key_hash(group, prefix, Some(rest))) && sees(key_hash(group, prefix, None))
    }
}

/// Whether the database writes the parts of a key like this.
fn are_written(kinds: &[KeyKind], rest: &[u8]) -> bool {
    let mut parts = rest.splitn(kinds.len().max(1), |byte| *byte == b':');
    kinds.iter().all(|kind| parts.next().is_some_and(|part| kind.writes(part)))
}

/// The hash of a key of a group, or of all keys with its prefix.
pub(super) fn key_hash(group: usize, prefix: &str, rest: Option<&[u8]>) -> u64 {
    FixedState::with_seed(0).hash_one((group, prefix, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn started(first: u64) -> Arc<Announced> {
        let announced = Arc::new(Announced::default());
        announced.start("1", first, false, vec![(0, "n:".into(), vec![KeyKind::Integer])]);
        announced
    }
    fn add(announced: &Announced, key: u64, xid: u64) {
        announced.add(hash(key), xid);
    }
    fn hash(key: u64) -> u64 {
        key_hash(0, "n:", Some(key.to_string().as_bytes()))
    }
    fn sees(seen: &Vouching<'_>, key: u64) -> bool {
        seen.vouches_for(0, "n:", key.to_string().as_bytes())
    }
    fn vouches(announced: &Arc<Announced>, snapshot: &str, key: u64) -> bool {
        announced.begin().vouches(&format!("{snapshot} 1 f")).is_some_and(|seen| sees(&seen, key))
    }

    /// The trap itself: announced, and not visible yet.
    #[test]
    fn a_fetch_that_has_not_seen_a_change_is_not_vouched_for() {
        let announced = started(10);
        assert!(vouches(&announced, "12:12:", 1));
        add(&announced, 1, 12);
        for (snapshot, seen) in [("12:12:", false), ("12:14:12", false), ("13:13:", true), ("11:14:11", true)] {
            assert_eq!(vouches(&announced, snapshot, 1), seen, "{snapshot}");
            assert!(vouches(&announced, snapshot, 2), "another key: {snapshot}");
        }
        let ticket = announced.begin();
        let seen = ticket.vouches("13:13: 1 f").unwrap();
        assert!(!seen.vouches_for(0, "n:", b"01"), "1 is announced, 01 never");
        assert!(seen.vouches_for(1, "n:", b"01") && seen.vouches_for(0, "t:", b"01"), "other groups and prefixes");
        assert!(!vouches(&announced, "9:14:9", 2), "what was running at the start may have been committed before it");
    }

    /// A change that comes then must fence the flight, even if the tier is empty.
    #[test]
    fn a_fetch_is_under_way_until_its_answer_was_handled() {
        let announced = started(10);
        assert!(!announced.are_fetched());
        let (first, second) = (announced.begin(), announced.begin());
        assert!(first.vouches("12:12: 1 f").is_some() && announced.are_fetched());
        drop(first);
        assert!(announced.are_fetched());
        drop(second);
        assert!(!announced.are_fetched());
    }

    #[test]
    fn a_statement_of_before_the_loss_or_of_another_server_is_not_vouched_for() {
        let announced = started(10);
        let ticket = announced.begin();
        assert!(ticket.vouches("12:12: 1 f").is_some());
        assert!(ticket.vouches("12:12: 2 f").is_none(), "another server");
        assert!(ticket.vouches("12:12: 1 t").is_none(), "a standby");
        let seen = ticket.vouches("12:12: 1 f").unwrap();
        announced.stop();
        assert!(!sees(&seen, 1) && ticket.vouches("12:12: 1 f").is_none());
        announced.start("1", 11, true, Vec::new());
        assert!(!sees(&seen, 1) && ticket.vouches("12:12: 1 f").is_none(), "sent before the loss");
        assert!(announced.begin().vouches("12:12: 2 t").is_some(), "standbys may be read");
    }

    /// A running transaction keeps `xmin` low for hours: keys that change meanwhile are kept all the
    /// same.
    #[test]
    fn a_long_transaction_costs_no_copies_of_what_others_change() {
        let announced = started(10);
        for xid in 20..1000 {
            add(&announced, 1, xid);
            assert!(!vouches(&announced, &format!("15:{xid}:15"), 1));
            assert!(vouches(&announced, &format!("15:{}:15", xid + 1), 1), "{xid}");
        }
    }

    #[test]
    fn a_change_is_not_forgotten_while_a_fetch_that_has_not_seen_it_is_under_way() {
        let announced = started(10);
        add(&announced, 1, 20);
        let old = announced.begin();
        for xid in 21..40 {
            // These see 20, and the floor would move, were it not for the old one.
            assert!(vouches(&announced, &format!("{xid}:{xid}:"), 2));
            add(&announced, 1, xid);
        }
        let seen = old.vouches("20:50:20 1 f").unwrap();
        assert!(!sees(&seen, 1), "20 is not visible in it, all others are");
    }

    proptest! {
        /// Against the plain model: all transactions that were announced must be visible.
        #[test]
        fn never_vouches_for_what_a_fetch_has_not_seen(
            steps in proptest::collection::vec((0u8..4, 0u64..6, any::<proptest::sample::Index>()), 1..200),
        ) {
            let announced = started(10);
            let (mut next, mut running, mut all) = (10u64, Vec::<(u64, bool)>::new(), Vec::<(u64, u64)>::new());
            let mut fetches: Vec<(Ticket, String, Vec<u64>)> = Vec::new();
            for (what, hash, index) in steps {
                match what {
                    // A transaction begins.
                    0 => {
                        running.push((next, false));
                        next += 1;
                    }
                    // Its commit is announced, though it is not visible.
                    1 if !running.is_empty() => {
                        let at = index.index(running.len());
                        if !std::mem::replace(&mut running[at].1, true) {
                            add(&announced, hash, running[at].0);
                            all.push((hash, running[at].0));
                        }
                    }
                    // One that was announced becomes visible.
                    2 => {
                        if let Some(at) = running.iter().position(|(_, is_announced)| *is_announced) {
                            running.remove(at);
                        }
                    }
                    // A fetch begins, or ends.
                    _ if fetches.len() < 3 && index.index(2) == 0 => {
                        let mut ids: Vec<u64> = running.iter().map(|(xid, _)| *xid).collect();
                        ids.sort_unstable();
                        let xmin = ids.first().copied().unwrap_or(next);
                        let list: Vec<_> = ids.iter().map(u64::to_string).collect();
                        fetches.push((announced.begin(), format!("{xmin}:{next}:{} 1 f", list.join(",")), ids));
                    }
                    _ if !fetches.is_empty() => {
                        let (ticket, text, ids) = fetches.swap_remove(index.index(fetches.len()));
                        let upper: u64 = text.split(':').nth(1).unwrap().parse().unwrap();
                        let is_hidden = |xid: &u64| ids.contains(xid) || *xid >= upper;
                        let must_refuse = all.iter().any(|(of, xid)| *of == hash && is_hidden(xid));
                        let vouched = ticket.vouches(&text).is_some_and(|seen| sees(&seen, hash));
                        prop_assert!(!(vouched && must_refuse), "{} {:?}", text, all);
                    }
                    _ => {}
                }
            }
        }
    }
}
