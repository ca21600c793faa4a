//! What is kept on this machine's disk: the durable store. Knows keys, values and expiries; no protocol, no memory tier.
pub mod disk;
