//! Units and bounds of rows.

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
/// Above this a duration is a mistake, and sums with the clock stay far from overflow.
pub(super) const TEN_YEARS: u64 = 10 * 365 * 86_400_000;
pub(super) const DAY: u64 = 86_400_000;
/// What the engine's formats allow; lower limits may be set.
pub(super) const MAX_VALUE: u64 = 512 * MIB;
