//! The protocol of a target: one call for each operation, whatever the protocol.
use super::{
    http_requests::HttpRequests,
    key_batch::KeyBatch,
    memcache_requests as memcache,
    resp_requests::{self as resp, RedisRequests},
    scanned_reply::{Expect, ReplyScan},
    statuses::Statuses,
};
use crate::lib::load::{
    ops::Verb,
    target::{TargetProtocol, TargetUrl},
};
use anyhow::bail;

/// How requests to a target are written and its replies read.
#[derive(Debug, Clone)]
pub(crate) enum Wire {
    /// RESP2
    Redis(RedisRequests),
    /// HTTP/1.1
    Http(Box<HttpRequests>),
    /// memcached's text protocol
    Memcache,
}

impl Wire {
    /// The wire of a target for these operations. `headers` go with each HTTP request; `statuses`
    /// tells which answers are errors.
    pub(crate) fn new<'a>(
        target: &TargetUrl,
        verbs: impl Iterator<Item = &'a Verb>,
        headers: &[String],
        statuses: Statuses,
    ) -> anyhow::Result<Wire> {
        Ok(match target.protocol {
            TargetProtocol::Redis => Wire::Redis(RedisRequests::new(verbs)?),
            TargetProtocol::Http => Wire::Http(Box::new(HttpRequests::new(target, verbs, headers, statuses)?)),
            TargetProtocol::Memcache => {
                for verb in verbs {
                    if let Verb::Raw(text) = verb {
                        bail!("raw requests such as {text:?} are for http and redis targets");
                    }
                }
                Wire::Memcache
            }
        })
    }

    /// What is sent first on a connection, and how many replies it gets.
    pub(crate) fn greeting(&self, target: &TargetUrl) -> (Vec<u8>, usize) {
        match self {
            Wire::Redis(_) => resp::greeting(target),
            _ => (Vec::new(), 0),
        }
    }

    /// Reads one key.
    pub(crate) fn get(&self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            Wire::Redis(_) => resp::get(key, out),
            Wire::Http(http) => http.get(key, out),
            Wire::Memcache => memcache::get([key].into_iter(), out),
        }
    }

    /// Writes one key.
    pub(crate) fn set(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match self {
            Wire::Redis(_) => resp::command(&[b"SET", key, value], out),
            Wire::Http(http) => http.set(key, value, out),
            Wire::Memcache => memcache::set(key, value, out),
        }
    }

    /// Removes one key.
    pub(crate) fn del(&self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            Wire::Redis(_) => resp::command(&[b"DEL", key], out),
            Wire::Http(http) => http.del(key, out),
            Wire::Memcache => memcache::del(key, out),
        }
    }

    /// Reads several keys at once.
    pub(crate) fn mget(&self, keys: &KeyBatch, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        match self {
            Wire::Redis(_) => resp::mget(keys.iter(), out),
            Wire::Http(http) => http.mget(keys.iter(), scratch, out),
            Wire::Memcache => memcache::get(keys.iter(), out),
        }
    }

    /// The raw request of the verb with this number.
    pub(crate) fn raw(&self, verb: usize, key: &[u8], value: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        match self {
            Wire::Redis(resp) => resp.raw(verb, key, value, scratch, out),
            Wire::Http(http) => http.raw(verb, key, value, scratch, out),
            Wire::Memcache => {}
        }
    }

    /// How the reply to this verb is read.
    pub(crate) fn expect(verb: &Verb) -> Expect {
        match verb {
            Verb::Get | Verb::Mget(_) | Verb::Scan(_) | Verb::ReadModifyWrite => Expect::Lookup,
            Verb::Raw(text) if text.starts_with("HEAD ") => Expect::Head,
            Verb::Raw(text) if text.starts_with("GET ") => Expect::Lookup,
            _ => Expect::Plain,
        }
    }

    /// Looks for a reply to `asked` keys at the beginning of `bytes`.
    pub(crate) fn scan(&self, expect: Expect, asked: u32, bytes: &[u8]) -> ReplyScan {
        match self {
            Wire::Redis(_) => resp::scan(expect, bytes),
            Wire::Http(http) => http.scan(expect, bytes),
            Wire::Memcache => memcache::scan(expect, asked, bytes),
        }
    }
}
