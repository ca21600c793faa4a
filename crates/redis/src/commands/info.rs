//! INFO: the server's state, in the sections and names that tools read. With a Redis source they
//! are Redis's, except for the section `Larder`.
use super::{
    config::{PERCENTILES, eviction_policy},
    config_larder::Whose,
    connection::REDIS_VERSION,
    info_larder::larder,
    replication,
};
use crate::{command_context::CommandContext, command_outcome::Done, emulated_cluster::redis_mode};
use larder_base::telemetry::{CommandNumbers, ProcessStats};
use larder_config::Transport;
use larder_core::{app::App, snapshot::LoadStatus};
use larder_engine::Stats;
use larder_proto::resp::Args;
use std::{fmt::Write as _, sync::atomic::Ordering::Relaxed, time::Duration};

/// Writes the lines of a section.
type Section = fn(&mut Info<'_, '_>);

/// The sections in the order in which they are shown. `false`: shown only when asked for by name.
const SECTIONS: &[(&str, bool, Section)] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, |_| {}),
    ("Commandstats", false, commandstats),
    ("Errorstats", true, errorstats),
    ("Latencystats", false, latencystats),
    ("Cluster", true, |info| info.line("cluster_enabled", u8::from(info.call.worker.app.settings.emulates_cluster))),
    ("Keyspace", true, keyspace),
];

/// The section with the facts of this process. It can be asked for by name with every source.
const LARDER: &str = "Larder";
/// The sections about the commands that this process was asked to run. With a Redis source they
/// replace Redis's, which has not seen the commands that the memory tier answered.
const OF_COMMANDS: [&str; 2] = ["Commandstats", "Latencystats"];

/// The text written so far.
pub(super) struct Info<'i, 'c> {
    pub(super) call: &'i CommandContext<'c>,
    pub(super) tier: Stats,
    text: String,
}
impl Info<'_, '_> {
    fn of<'i, 'c>(call: &'i CommandContext<'c>) -> Info<'i, 'c> {
        Info { call, tier: call.cache().stats(), text: String::new() }
    }
    fn section(&mut self, name: &str, write: Section) {
        if !self.text.is_empty() {
            self.text.push_str("\r\n");
        }
        let _ = write!(self.text, "# {name}\r\n");
        write(self);
    }
    pub(super) fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{name}:{value}\r\n");
    }
}

/// INFO [section …]
pub(crate) fn info(call: &mut CommandContext<'_>) -> Done {
    let of_redis = call.redis().is_some();
    if of_redis && whose(call.args) != Whose::Larder {
        return call.alone();
    }
    let mut info = Info::of(call);
    for (name, by_default, write) in SECTIONS.iter().filter(|(name, ..)| !of_redis || OF_COMMANDS.contains(name)) {
        if is_asked(call.args, name, *by_default) {
            info.section(name, *write);
        }
    }
    if call.args.from(1).any(|section| section.eq_ignore_ascii_case(LARDER.as_bytes())) {
        info.section(LARDER, larder);
    }
    let text = info.text;
    call.verbatim(text.as_bytes())
}

fn is_asked(args: Args<'_>, name: &str, by_default: bool) -> bool {
    let is = |section: &[u8], name: &str| section.eq_ignore_ascii_case(name.as_bytes());
    let mut asked = args.from(1);
    match asked.len() {
        0 => by_default,
        _ => asked.any(|section| {
            is(section, name)
                || is(section, "all")
                || is(section, "everything")
                || (is(section, "default") && by_default)
        }),
    }
}

/// Whether this process has the section with every source.
pub(crate) fn is_larder(section: &[u8]) -> bool {
    [LARDER].iter().chain(&OF_COMMANDS).any(|name| section.eq_ignore_ascii_case(name.as_bytes()))
}
/// Which server has the sections that are asked for.
pub(crate) fn whose(args: Args<'_>) -> Whose {
    if args.len() > 1 && args.from(1).all(is_larder) { Whose::Larder } else { Whose::Both }
}
/// The sections of this process that are asked for, in front of a Redis. `has_redis`: Redis has
/// answered.
pub(crate) fn own_sections(call: &CommandContext<'_>, has_redis: bool) -> String {
    let mut info = Info::of(call);
    for (name, by_default, write) in SECTIONS.iter().filter(|(name, ..)| OF_COMMANDS.contains(name)) {
        if is_asked(call.args, name, *by_default) {
            info.section(name, *write);
        }
    }
    if !has_redis || is_asked(call.args, LARDER, true) {
        info.section(LARDER, larder);
    }
    info.text
}
/// Redis's INFO without the sections that this process has instead.
pub(crate) fn without_own_sections(text: &[u8]) -> Vec<u8> {
    let mut is_own = false;
    let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| {
        if let Some(name) = line.strip_prefix(b"# ") {
            is_own = is_larder(name.trim_ascii_end());
        }
        !is_own
    });
    lines.collect::<Vec<_>>().concat()
}

/// Redis's INFO with the marks of this server: a node of a cluster only if it emulates one.
pub(crate) fn of_one_server(call: &CommandContext<'_>, text: &[u8]) -> Vec<u8> {
    let mode = format!("redis_mode:{}\r\n", redis_mode(call.worker));
    let enabled = format!("cluster_enabled:{}\r\n", u8::from(call.worker.app.settings.emulates_cluster));
    let lines = text.split_inclusive(|byte| *byte == b'\n').map(|line| match line {
        line if line.starts_with(b"redis_mode:") => mode.as_bytes(),
        line if line.starts_with(b"cluster_enabled:") => enabled.as_bytes(),
        line => line,
    });
    lines.collect::<Vec<_>>().concat()
}

/// The reply when Redis does not answer: what it last said about itself, and the fields that
/// clients check before they call a server ready.
pub(crate) fn last_known(call: &CommandContext<'_>) -> Vec<u8> {
    let identity = call.redis().and_then(|server| server.identity()).unwrap_or_default();
    let server = match &*identity.about {
        "" => format!("# Server\r\nredis_version:{}\r\nredis_mode:standalone", identity.version),
        about => about.to_owned(),
    };
    // INFO uses the old name of a replica.
    let role = if &*identity.role == "replica" { "slave" } else { &identity.role };
    let sections = [
        ("Server", server),
        ("Persistence", "# Persistence\r\nloading:0".to_owned()),
        ("Replication", format!("# Replication\r\nrole:{role}")),
        ("Cluster", "# Cluster\r\ncluster_enabled:0".to_owned()),
    ];
    let asked = sections.iter().filter(|(name, _)| is_asked(call.args, name, true));
    let texts: Vec<String> = asked.map(|(_, text)| format!("{text}\r\n")).collect();
    of_one_server(call, texts.join("\r\n").as_bytes())
}

fn server(info: &mut Info<'_, '_>) {
    let app = &info.call.worker.app;
    let uptime = app.telemetry.uptime().as_secs();
    info.line("redis_version", REDIS_VERSION);
    // Redis shows this value if it was not built from a checkout. Tools print it.
    info.line("redis_git_sha1", "00000000");
    info.line("redis_git_dirty", 0);
    info.line("larder_version", env!("CARGO_PKG_VERSION"));
    info.line("redis_mode", redis_mode(info.call.worker));
    info.line("os", std::env::consts::OS);
    info.line("arch_bits", usize::BITS);
    info.line("multiplexing_api", multiplexing_api(app));
    info.line("process_id", std::process::id());
    info.line("run_id", run_id(info.call));
    info.line("tcp_port", app.bound.redis_port());
    info.line("server_time_usec", info.call.now * 1000);
    info.line("uptime_in_seconds", uptime);
    info.line("uptime_in_days", uptime / 86_400);
    info.line("io_threads", app.settings.threads);
}

/// The system calls with which client connections begin. A worker to which the kernel refuses
/// io_uring uses epoll.
fn multiplexing_api(app: &App) -> &'static str {
    match app.settings.transport {
        _ if !cfg!(target_os = "linux") => "kqueue",
        Transport::IoUring if app.workers_with_ring.load(Relaxed) > 0 => "io_uring",
        _ => "epoll",
    }
}

fn clients(info: &mut Info<'_, '_>) {
    let clients = &info.call.worker.app.clients;
    let connected = clients.list();
    info.line("connected_clients", connected.len());
    info.line("maxclients", clients.limit());
    info.line("blocked_clients", connected.iter().filter(|client| client.blocked.load(Relaxed)).count());
    info.line("pubsub_clients", connected.iter().filter(|client| client.subscribed.load(Relaxed)).count());
    info.line("tracking_clients", clients.tracking());
}

fn memory(info: &mut Info<'_, '_>) {
    let tier = info.tier;
    let rss = ProcessStats::read().resident_bytes;
    info.line("used_memory", tier.used_bytes);
    info.line("used_memory_human", human(tier.used_bytes));
    info.line("used_memory_rss", rss);
    info.line("used_memory_rss_human", human(rss));
    info.line("used_memory_dataset", tier.live_bytes);
    info.line("maxmemory", tier.max_bytes);
    info.line("maxmemory_human", human(tier.max_bytes));
    info.line("maxmemory_policy", eviction_policy(info.call));
    let buffers = info.call.worker.app.buffers.clone();
    let of_clients = |kind: &str| kind.starts_with("redis_");
    let clients = buffers.by_kind().filter(|(kind, _)| of_clients(kind));
    info.line("mem_clients_normal", clients.map(|(_, bytes)| bytes).sum::<u64>());
    buffer_kinds(info);
    let ratio = rss as f64 / tier.used_bytes.max(1) as f64;
    info.line("mem_fragmentation_ratio", format!("{ratio:.2}"));
}

/// The bytes on the account of all buffers, by kind.
pub(super) fn buffer_kinds(info: &mut Info<'_, '_>) {
    let buffers = info.call.worker.app.buffers.clone();
    info.line("larder_buffers_max", buffers.limit());
    info.line("larder_buffers_used", buffers.used());
    for (kind, bytes) in buffers.by_kind() {
        info.line(&format!("larder_buffers_{kind}"), bytes);
    }
}

fn persistence(info: &mut Info<'_, '_>) {
    let status = info.call.worker.app.snapshots.status();
    let is_loading = matches!(status.load, LoadStatus::Loading { .. });
    info.line("loading", u8::from(is_loading));
    info.line("async_loading", 0);
    info.line("rdb_changes_since_last_save", status.changes);
    info.line("rdb_bgsave_in_progress", u8::from(status.saving.is_some()));
    info.line("rdb_last_save_time", status.last_success / 1000);
    info.line("rdb_last_bgsave_status", if status.has_failed() { "err" } else { "ok" });
    let seconds = |time: Option<Duration>| time.map_or(-1, |time| time.as_secs() as i64);
    info.line("rdb_last_bgsave_time_sec", seconds(status.last.as_ref().map(|last| last.took)));
    info.line("rdb_current_bgsave_time_sec", seconds(status.saving.map(|saving| saving.1)));
    info.line("rdb_saves", status.saves);
    if let LoadStatus::Loading { loaded, .. } | LoadStatus::Done(loaded, _) = &status.load {
        info.line("rdb_last_load_keys_expired", loaded.expired);
        info.line("rdb_last_load_keys_loaded", loaded.restored);
    }
    if let LoadStatus::Loading { bytes, total, since, .. } = status.load {
        info.line("loading_start_time", since / 1000);
        info.line("loading_total_bytes", total);
        info.line("loading_loaded_bytes", bytes);
        info.line("loading_loaded_perc", format!("{:.2}", bytes as f64 * 100.0 / total.max(1) as f64));
        // Clients wait for this long before they ask again.
        info.line("loading_eta_seconds", 1);
    }
    info.line("aof_enabled", 0);
}

fn stats(info: &mut Info<'_, '_>) {
    let (tier, sums) = (info.tier, info.call.worker.app.telemetry.sums_since_reset());
    info.line("total_connections_received", sums.redis_connections_opened);
    info.line("total_commands_processed", info.call.worker.app.commands.total_since_reset());
    info.line("total_net_input_bytes", sums.redis_bytes_in);
    info.line("total_net_output_bytes", sums.redis_bytes_out);
    info.line("rejected_connections", sums.connections_refused);
    info.line("expired_keys", tier.expirations);
    info.line("evicted_keys", tier.evictions);
    info.line("keyspace_hits", tier.hits);
    info.line("keyspace_misses", tier.misses + tier.negative_hits);
    let app = &info.call.worker.app;
    let [channels, patterns, shard_channels] = app.tables.pubsub.totals();
    info.line("pubsub_channels", channels);
    info.line("pubsub_patterns", patterns);
    info.line("pubsubshard_channels", shard_channels);
    let tracked = app.tables.tracking.totals();
    info.line("tracking_total_keys", tracked.keys);
    info.line("tracking_total_items", tracked.items);
    info.line("tracking_total_prefixes", tracked.prefixes);
    info.line("client_output_buffer_limit_disconnections", app.tables.backlog.cut_off());
    let cut = app.buffers.cut().find(|(protocol, _)| *protocol == "redis");
    info.line("evicted_clients", cut.map_or(0, |(_, cut)| cut));
    info.line("total_error_replies", sums.redis_errors());
    info.line(
        "cross_protocol_connections",
        sums.redis_foreign_http + sums.redis_foreign_tls + sums.redis_foreign_proxy,
    );
}

fn replication(info: &mut Info<'_, '_>) {
    for (name, value) in replication::info_lines(info.call, &run_id(info.call)) {
        info.line(&name, value);
    }
}

fn cpu(info: &mut Info<'_, '_>) {
    let process = ProcessStats::read();
    info.line("used_cpu_sys", format_args!("{:.6}", process.cpu_system));
    info.line("used_cpu_user", format_args!("{:.6}", process.cpu_user));
}

fn commandstats(info: &mut Info<'_, '_>) {
    for CommandNumbers { name, calls, failed, rejected, nanos, .. } in info.call.worker.app.commands.sums_since_reset()
    {
        let per_call = nanos as f64 / 1e3 / calls.max(1) as f64;
        info.line(
            &format!("cmdstat_{name}"),
            format_args!(
                "calls={calls},usec={},usec_per_call={per_call:.2},rejected_calls={rejected},failed_calls={failed}",
                nanos / 1000
            ),
        );
    }
}

fn latencystats(info: &mut Info<'_, '_>) {
    for CommandNumbers { name, times, .. } in info.call.worker.app.commands.sums_since_reset() {
        let Some(times) = times else { continue };
        let micros = |percentile: &str| {
            let share = percentile.parse::<f64>().unwrap_or(100.0) / 100.0;
            times.quantile(share).unwrap_or_default().as_nanos() as f64 / 1e3
        };
        let shown = PERCENTILES.map(|percentile| format!("p{percentile}={:.3}", micros(percentile)));
        info.line(&format!("latency_percentiles_usec_{name}"), shown.join(","));
    }
}

fn errorstats(info: &mut Info<'_, '_>) {
    let kinds = info.call.worker.app.telemetry.sums_since_reset().redis_errors_by_kind();
    // The errors about the source begin with ERR, too.
    let of_source = |kind: &str| kind == "ERR" || kind == "source";
    let errors: u64 = kinds.iter().filter(|(kind, _)| of_source(kind)).map(|(_, count)| count).sum();
    let others = kinds.into_iter().filter(|(kind, _)| !of_source(kind));
    for (kind, count) in [("ERR", errors)].into_iter().chain(others).filter(|(_, count)| *count > 0) {
        info.line(&format!("errorstat_{kind}"), format_args!("count={count}"));
    }
}

fn keyspace(info: &mut Info<'_, '_>) {
    if info.tier.entries > 0 {
        let (keys, expires) = (info.tier.entries, info.tier.expiring_entries.min(info.tier.entries));
        info.line("db0", format_args!("keys={keys},expires={expires},avg_ttl=0"));
    }
}

/// 40 hexadecimal digits that differ in each run of a server.
pub(super) fn run_id(call: &CommandContext<'_>) -> String {
    let (instance, pid) = (call.worker.app.instance, std::process::id());
    format!("{instance:016x}{:016x}{pid:08x}", instance.rotate_left(32))
}

/// Formats bytes for people, like Redis.
fn human(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    match UNITS.iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => format!("{:.2}{unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes}B"),
    }
}
