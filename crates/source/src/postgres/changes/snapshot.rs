//! What a statement could see: PostgreSQL's snapshots and transaction ids.

/// SQL of what tells servers, and starts of a server, from each other.
pub(super) const SERVER: &str = "extract(epoch from pg_postmaster_start_time())";

/// SQL of the text that a statement returns with its rows, for
/// [`Snapshot::read`](Snapshot::read): what it sees, and the server (by when it was started).
pub(in crate::postgres) const SEEN: &str =
    "concat_ws(' ', pg_current_snapshot(), extract(epoch from pg_postmaster_start_time()), pg_is_in_recovery())";

/// A snapshot as `pg_current_snapshot()` shows it: all transactions before `xmin` are over, none
/// from `xmax` on is visible, and `running` are those between that are not over. Only top-level
/// transactions are listed, like in the change stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    xmin: u64,
    xmax: u64,
    /// In order.
    running: Vec<u64>,
}

/// What a statement has said of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen<'s> {
    pub(super) snapshot: Snapshot,
    pub(super) server: &'s str,
    pub(super) is_standby: bool,
}

impl Snapshot {
    /// Sees what was over when this transaction began, and nothing else.
    pub(super) fn before(xid: u64) -> Snapshot {
        Snapshot { xmin: xid, xmax: xid, running: Vec::new() }
    }
    /// All transactions before this one are over.
    pub(super) fn xmin(&self) -> u64 {
        self.xmin
    }
    /// Whether the changes of a committed transaction are visible.
    pub(super) fn sees(&self, xid: u64) -> bool {
        xid < self.xmin || xid < self.xmax && self.running.binary_search(&xid).is_err()
    }
    fn parse(text: &str) -> Option<Snapshot> {
        let mut parts = text.split(':');
        let mut number = || parts.next()?.parse().ok();
        let (xmin, xmax) = (number()?, number()?);
        let running = parts.next()?.split(',').filter(|xid| !xid.is_empty());
        let running: Vec<u64> = running.map(|xid| xid.parse().ok()).collect::<Option<_>>()?;
        (xmin <= xmax && running.is_sorted()).then_some(Snapshot { xmin, xmax, running })
    }
    /// Reads what [`SEEN`] gives.
    pub(super) fn read(text: &str) -> Option<Seen<'_>> {
        let mut parts = text.split(' ');
        let (snapshot, server, is_standby) = (Snapshot::parse(parts.next()?)?, parts.next()?, parts.next()? == "t");
        // A standby does not list what is running, so nothing after the oldest counts as visible.
        let snapshot = if is_standby { Snapshot::before(snapshot.xmin) } else { snapshot };
        Some(Seen { snapshot, server, is_standby })
    }
}

/// The full id of a transaction whose last 32 bits are given, as in the change stream: the one that
/// is nearest to a known id. Ids that are in use at the same time are less than 2^31 apart.
pub(super) fn full_xid(low: u32, near: u64) -> u64 {
    let distance = low.wrapping_sub(near as u32).cast_signed();
    near.saturating_add_signed(distance.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_sees_what_was_over() {
        let snapshot = Snapshot::parse("10:20:10,14").unwrap();
        let seen: Vec<u64> = (8..22).filter(|xid| snapshot.sees(*xid)).collect();
        assert_eq!(seen, [8, 9, 11, 12, 13, 15, 16, 17, 18, 19]);
        assert_eq!(Snapshot::parse("7:7:"), Some(Snapshot::before(7)));
        for wrong in ["", "1", "1:2", "2:1:", "1:9:5,4", "1:9:x", "-1:9:"] {
            assert_eq!(Snapshot::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_standby_sees_only_what_is_before_the_oldest() {
        let seen = Snapshot::read("10:20: 1795864825.2 t").unwrap();
        assert_eq!(
            (seen.server, seen.is_standby, seen.snapshot.sees(9), seen.snapshot.sees(15)),
            ("1795864825.2", true, true, false)
        );
        assert!(Snapshot::read("10:20: 1795864825.2 f").unwrap().snapshot.sees(15));
        assert_eq!(Snapshot::read("10:20:"), None);
    }

    #[test]
    fn ids_of_32_bits_are_those_near_the_last_one() {
        let epoch = 1u64 << 32;
        for (low, near, full) in [
            (5, 3, 5),
            (3, 5, 3),
            (2, epoch - 1, epoch + 2),
            (u32::MAX, epoch + 3, epoch - 1),
            (7, 5 * epoch + 7, 5 * epoch + 7),
            (u32::MAX, 3, 0),
        ] {
            assert_eq!(full_xid(low, near), full, "{low} near {near}");
        }
    }
}
