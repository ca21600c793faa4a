//! The names of the eviction policies in the setting `eviction`.
use larder_engine::Eviction;

pub(super) const NAMES: &[&str] = &["s3fifo", "sieve", "lru"];

/// The policy of a name of the setting; the default for any other.
pub(super) fn from_name(name: &str) -> Eviction {
    match name {
        "sieve" => Eviction::Sieve,
        "lru" => Eviction::Lru,
        _ => Eviction::S3Fifo,
    }
}

/// The setting's name of a policy.
pub fn eviction_name(eviction: Eviction) -> &'static str {
    match eviction {
        Eviction::S3Fifo => "s3fifo",
        Eviction::Sieve => "sieve",
        Eviction::Lru => "lru",
    }
}
