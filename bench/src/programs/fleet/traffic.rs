//! Messages and connections of a node.
use crate::lib::dataset::uuid_of;
use larder_ring::peer::{Ring, RingHash};

/// Figures of a fleet by their names, in the order in which they are printed.
pub(super) type Figures = Vec<(&'static str, f64)>;

pub(super) fn ring(hash: RingHash, names: &[String]) -> Ring {
    Ring::new(hash, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Reads of a key count together within so many seconds, as in the server.
const WINDOW: f64 = 10.0;

/// What every node is asked.
#[derive(Debug)]
pub(super) struct Load {
    /// Reads per second of each key.
    pub(super) rates: Vec<f64>,
    pub(super) hot_copy_ttl: f64,
    pub(super) hot_copy_after: f64,
    pub(super) threads: f64,
    pub(super) writes: f64,
}

/// Reads per second of each key, the most frequent first, by Zipf's law.
pub(super) fn rates(keys: u64, theta: f64, reads: f64) -> Vec<f64> {
    let weight = |rank: u64| (rank as f64).powf(-theta);
    let all: f64 = (1..=keys).map(weight).sum();
    (1..=keys).map(|rank| reads * weight(rank) / all).collect()
}

/// Messages per second and connections of a node in a ring.
pub(super) fn traffic(ring: &Ring, nodes: u64, load: &Load) -> Figures {
    let others = nodes as f64 - 1.0;
    let mut received = vec![(0.0, 0.0); nodes as usize];
    let mut key = Vec::new();
    for (number, rate) in load.rates.iter().enumerate() {
        key.clear();
        uuid_of(number as u64, &mut key);
        let (without, with) = &mut received[ring.owner(&key).expect("a fleet has nodes")];
        *without += others * rate;
        *with += others * asked(*rate, load);
    }
    let mean = |figure: fn(&(f64, f64)) -> f64| received.iter().map(figure).sum::<f64>() / nodes as f64;
    let most = |figure: fn(&(f64, f64)) -> f64| received.iter().map(figure).fold(0.0, f64::max);
    vec![
        // Reads that a node receives from others, without hot copies: mean of the nodes, and the node that
        // receives most. It sends as many on average.
        ("received_without_copies", mean(|node| node.0)),
        ("busiest_without_copies", most(|node| node.0)),
        ("received_with_copies", mean(|node| node.1)),
        ("busiest_with_copies", most(|node| node.1)),
        // It sends as many.
        ("removals", load.writes * others),
        // Once each of its threads has talked to each other node, both directions.
        ("connections", 2.0 * load.threads * others),
    ]
}

/// How often a second a node asks the owner for a key that it is asked for `rate` times a second.
///
/// The rate is taken as even. The first `hot_copy_after` reads of a thread ask the owner, the last
/// of them leaves a copy; while the window lasts, each end of the copy costs one read more. A key
/// that is too rare for that asks every time.
fn asked(rate: f64, load: &Load) -> f64 {
    let before_copy = load.threads * (load.hot_copy_after - 1.0) + 1.0;
    let counted = before_copy / rate;
    if load.hot_copy_ttl == 0.0 || counted > WINDOW {
        return rate;
    }
    let cycle = load.hot_copy_ttl + 1.0 / rate;
    let copies = ((WINDOW - counted) / cycle).floor().max(0.0);
    let seconds = counted + (copies + 1.0) * load.hot_copy_ttl;
    ((before_copy + copies) / seconds).min(rate)
}
