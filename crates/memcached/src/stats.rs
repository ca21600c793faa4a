//! `stats`: the numbers that memcached's clients and exporters read.
use larder_config::Address;
use larder_core::app::Worker;
use larder_proto::output::Output;
use larder_store::clock;
use std::fmt::Display;

/// The version that clients are told. They compare its first two numbers with what they need.
pub(crate) const VERSION: &str = concat!("1.6.18-larder-", env!("CARGO_PKG_VERSION"));

/// Writes the statistics of this name; empty: the general ones. False: there are none.
pub(crate) fn write(worker: &Worker, what: &[u8], out: &mut Output) -> bool {
    match what {
        b"" => general(worker, out),
        b"settings" => settings(worker, out),
        b"items" => items(worker, out),
        b"slabs" => slabs(worker, out),
        b"sizes" => stat(out, "sizes_status", "disabled"),
        b"conns" | b"extstore" => {}
        b"reset" => {
            out.put(b"RESET\r\n");
            return true;
        }
        _ => return false,
    }
    out.put(b"END\r\n");
    true
}

fn stat(out: &mut Output, name: &str, value: impl Display) {
    out.put(format!("STAT {name} {value}\r\n").as_bytes());
}

fn general(worker: &Worker, out: &mut Output) {
    let app = &worker.app;
    let snapshot = app.metrics();
    let sums = &snapshot.sums;
    let tier = worker.groups.default().cache.stats();
    let open = sums.memcached_connections_opened.saturating_sub(sums.memcached_connections_closed);
    stat(out, "pid", std::process::id());
    stat(out, "uptime", app.telemetry.uptime().as_secs());
    stat(out, "time", clock::wall() / 1000);
    stat(out, "version", VERSION);
    stat(out, "pointer_size", usize::BITS);
    stat(out, "max_connections", app.clients.limit());
    stat(out, "curr_connections", open);
    stat(out, "total_connections", sums.memcached_connections_opened);
    stat(out, "rejected_connections", sums.connections_refused);
    stat(out, "cmd_get", sums.memcached_gets);
    stat(out, "cmd_set", sums.memcached_sets);
    stat(out, "cmd_flush", sums.memcached_flushes);
    stat(out, "cmd_touch", sums.memcached_touches);
    stat(out, "get_hits", sums.memcached_gets.saturating_sub(sums.memcached_get_misses));
    stat(out, "get_misses", sums.memcached_get_misses);
    stat(out, "bytes_read", sums.memcached_bytes_in);
    stat(out, "bytes_written", sums.memcached_bytes_out);
    stat(out, "limit_maxbytes", tier.max_bytes);
    stat(out, "accepting_conns", 1);
    stat(out, "threads", app.settings.threads);
    stat(out, "hash_bytes", tier.index_bytes);
    stat(out, "curr_items", tier.entries.saturating_sub(tier.negative_entries));
    stat(out, "total_items", tier.insertions);
    stat(out, "bytes", tier.used_bytes);
    stat(out, "reclaimed", tier.expirations);
    stat(out, "expired_unfetched", tier.expirations);
    stat(out, "evictions", tier.evictions);
}

fn settings(worker: &Worker, out: &mut Output) {
    let app = &worker.app;
    let tcp = app.bound.memcached.iter().find(|address| address.path().is_none());
    let unix = app.bound.memcached.iter().find_map(Address::path);
    stat(out, "maxbytes", worker.groups.default().cache.max_memory());
    stat(out, "maxconns", app.clients.limit());
    stat(out, "tcpport", tcp.map_or(0, Address::port));
    stat(out, "udpport", 0);
    stat(out, "domain_socket", unix.map_or("NULL".into(), |path| path.display().to_string()));
    stat(out, "verbosity", 0);
    stat(out, "evictions", "on");
    stat(out, "num_threads", app.settings.threads);
    stat(out, "cas_enabled", "yes");
    stat(out, "auth_enabled_ascii", if app.users.are_own() { "yes" } else { "no" });
    stat(out, "item_size_max", app.settings.max_value);
    stat(out, "flush_enabled", "yes");
}

/// memcached's tools sum and show these per slab class. Larder has one.
fn items(worker: &Worker, out: &mut Output) {
    let tier = worker.groups.default().cache.stats();
    stat(out, "items:1:number", tier.entries.saturating_sub(tier.negative_entries));
    stat(out, "items:1:age", 0);
    stat(out, "items:1:evicted", tier.evictions);
    stat(out, "items:1:outofmemory", 0);
    stat(out, "items:1:reclaimed", tier.expirations);
}

fn slabs(worker: &Worker, out: &mut Output) {
    let tier = worker.groups.default().cache.stats();
    stat(out, "1:chunk_size", tier.live_bytes.checked_div(tier.entries).unwrap_or_default());
    stat(out, "1:total_pages", tier.used_bytes.div_ceil(1 << 20));
    stat(out, "1:used_chunks", tier.entries);
    stat(out, "1:mem_requested", tier.live_bytes);
    stat(out, "active_slabs", 1);
    stat(out, "total_malloced", tier.used_bytes);
}
