//! The loads, and the targets of their ratios.
use crate::lib::figures::FigureTarget;
use serde::Serialize;

/// A way of loading servers: each compares a server with a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ServerLoad {
    /// GET, one command at a time: larder and redis-server
    GetP1,
    /// GET, 16 commands at a time: larder and redis-server
    GetP16,
    /// HTTP GET of a value: larder and nginx
    HttpKv,
    /// HTTP GET /lookup: larder and nginx
    HttpLookup,
    /// GET, one command at a time: larder with keys that only its source has, and larder with keys
    /// in memory
    MissesP1,
    /// The same, 16 commands at a time
    MissesP16,
    /// GET, 16 commands at a time: larder with keys that only its source has, and a proxy that does
    /// nothing but forward, in front of the same redis-server
    ProxyMissesP16,
    /// HTTP GET of keys that only the HTTP backend has: larder and nginx with proxy_cache
    OriginMisses,
    /// HSET, 16 commands at a time: larder, which forwards them to a redis-server, and redis-server
    /// itself
    ForwardedP16,
    /// HSET, 16 commands at a time: larder and a proxy that does nothing but forward, each with the
    /// redis-server behind it on the source's core
    ProxyForwardedP16,
    /// GET, 16 commands at a time: larder that redis-server tells of changes, and larder with
    /// copies of a fixed lifetime
    CoherentP16,
    /// GET, one command at a time: larder and a server that does nothing but read and write
    FloorP1,
    /// The same, 16 commands at a time
    FloorP16,
    /// HTTP GET of a value: larder and a bare hyper server
    FloorHyper,
    /// HTTP GET of a value: larder and a server that does nothing but read and write
    FloorHttp,
    /// GET, 16 commands at a time: larder and Pogocache
    PogocacheP16,
}

impl ServerLoad {
    /// Bounds on the ratios measured/reference of CPU time per request and of throughput.
    pub(super) fn targets(self) -> (Option<FigureTarget>, Option<FigureTarget>) {
        match self {
            ServerLoad::GetP1 => (Some(FigureTarget::AtMost(0.95)), None),
            ServerLoad::GetP16 => (Some(FigureTarget::AtMost(0.6)), Some(FigureTarget::AtLeast(1.5))),
            ServerLoad::HttpKv => (Some(FigureTarget::AtMost(0.85)), None),
            ServerLoad::HttpLookup => (Some(FigureTarget::AtMost(0.9)), None),
            ServerLoad::MissesP1 => (None, Some(FigureTarget::AtLeast(0.5))),
            ServerLoad::MissesP16 | ServerLoad::ProxyMissesP16 | ServerLoad::ProxyForwardedP16 => (None, None),
            ServerLoad::OriginMisses => (Some(FigureTarget::AtMost(0.4)), None),
            ServerLoad::ForwardedP16 => (None, Some(FigureTarget::AtLeast(0.7))),
            ServerLoad::CoherentP16 => (Some(FigureTarget::AtMost(1.05)), None),
            ServerLoad::FloorP1 => (Some(FigureTarget::AtMost(1.08)), None),
            ServerLoad::FloorP16 => (Some(FigureTarget::AtMost(1.25)), None),
            ServerLoad::FloorHyper => (Some(FigureTarget::AtMost(1.2)), None),
            ServerLoad::FloorHttp => (None, None),
            ServerLoad::PogocacheP16 => (Some(FigureTarget::AtMost(0.9)), None),
        }
    }
}
