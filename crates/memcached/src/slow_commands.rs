//! Notes commands that took long for the slow log.
use larder_base::telemetry::{SlowEntry, recorded_args};
use larder_core::{app::Worker, clients::Client};
use larder_proto::memcached::{MetaCommand, Request, StoreMode};
use std::time::Instant;

/// The name of a request's command, and its first key.
pub(crate) fn shown<'r>(request: &Request<'r>) -> (&'static str, &'r [u8]) {
    match *request {
        Request::Get { keys, with_version, exptime } => {
            let name = match (with_version, exptime) {
                (false, None) => "get",
                (true, None) => "gets",
                (false, Some(_)) => "gat",
                (true, Some(_)) => "gats",
            };
            (name, keys.into_iter().next().unwrap_or_default())
        }
        Request::Store(store) => {
            let name = match store.mode {
                StoreMode::Set => "set",
                StoreMode::Add => "add",
                StoreMode::Replace => "replace",
                StoreMode::Append => "append",
                StoreMode::Prepend => "prepend",
                StoreMode::Cas(_) => "cas",
            };
            (name, store.key)
        }
        Request::Arithmetic { key, is_increment, .. } => (if is_increment { "incr" } else { "decr" }, key),
        Request::Delete { key, .. } => ("delete", key),
        Request::Touch { key, .. } => ("touch", key),
        Request::Flush { .. } => ("flush_all", b""),
        Request::Stats(what) => ("stats", what),
        Request::Verbosity { .. } => ("verbosity", b""),
        Request::Version => ("version", b""),
        Request::Quit => ("quit", b""),
        Request::MetaNothing => ("mn", b""),
        Request::Meta(meta) => {
            let name = match meta.command {
                MetaCommand::Get => "mg",
                MetaCommand::Set(_) => "ms",
                MetaCommand::Delete => "md",
                MetaCommand::Arithmetic => "ma",
                MetaCommand::Debug => "me",
            };
            (name, meta.key)
        }
    }
}

/// A command of this client has ended.
pub(crate) fn note(worker: &Worker, client: &Client, (name, key): (&str, &[u8]), since: Instant) {
    let telemetry = &worker.app.telemetry;
    let took = since.elapsed();
    if telemetry.slow.is_slow(took) {
        let args = recorded_args([name.as_bytes(), key].into_iter()).into();
        let name = client.about.lock().name.clone();
        telemetry
            .slow
            .note(SlowEntry { id: 0, at: telemetry.time(), took, args, client: client.peer.clone(), name }, "command");
    }
}
