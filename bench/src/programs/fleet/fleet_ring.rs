//! The ring of a simulated fleet, and means over several fleets.
use crate::lib::figures::rounded;
use larder::peer::{Ring, RingHash};

pub(super) fn ring(hash: RingHash, names: &[String]) -> Ring {
    Ring::new(hash, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The mean of one figure over the fleets.
pub(super) fn mean<T>(of: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    rounded(of.iter().map(figure).sum::<f64>() / of.len() as f64)
}
