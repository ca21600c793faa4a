//! INFO's section `Larder`: the facts of this process, under names that no Redis uses. In front of
//! a Redis all other sections are Redis's.
use super::info::{Info, buffer_kinds};
use larder_base::telemetry::{CommandClass, Distribution, ProcessStats, hit_ratio};
use larder_config::{SourceClass, eviction_name};
use larder_source::mode_rules_text;
use std::sync::atomic::Ordering::Relaxed;

/// Writes the lines.
pub(super) fn larder(info: &mut Info<'_, '_>) {
    process(info);
    clients(info);
    tier(info);
    source(info);
    mirror(info);
}

fn process(info: &mut Info<'_, '_>) {
    let app = &info.call.worker.app;
    let process = ProcessStats::read();
    let sums = app.telemetry.sums_since_reset();
    info.line("larder_version", env!("CARGO_PKG_VERSION"));
    info.line("larder_process_id", std::process::id());
    info.line("larder_tcp_port", app.bound.redis_port());
    info.line("larder_uptime_in_seconds", app.telemetry.uptime().as_secs());
    info.line("larder_threads", app.settings.threads);
    info.line("larder_resident_memory", process.resident_bytes);
    info.line("larder_used_cpu_sys", format_args!("{:.6}", process.cpu_system));
    info.line("larder_used_cpu_user", format_args!("{:.6}", process.cpu_user));
    info.line("larder_commands_processed", app.commands.total_since_reset());
    info.line("larder_error_replies", sums.redis_errors());
    info.line("larder_net_input_bytes", sums.redis_bytes_in);
    info.line("larder_net_output_bytes", sums.redis_bytes_out);
    info.line("larder_longest_turn_usec", app.telemetry.longest_turn().as_micros());
    quantiles(info);
}

/// How long things take, microseconds.
fn quantiles(info: &mut Info<'_, '_>) {
    let app = &info.call.worker.app;
    let commands = app.commands.sums_since_reset();
    let reads = CommandClass::Read.sample(&commands);
    let writes = CommandClass::Write.sample(&commands);
    let mut http = Distribution::default();
    app.telemetry.http_times().iter().for_each(|of| http.merge(of));
    let source = app.groups.default().source().health().seconds().sample();
    for (what, times) in [("read", reads), ("write", writes), ("http", http.sample()), ("source", source)] {
        for (quantile, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            let micros = times.quantile(share).unwrap_or_default() * 1e6;
            info.line(&format!("larder_{what}_usec_{quantile}"), format_args!("{micros:.1}"));
        }
    }
}

fn clients(info: &mut Info<'_, '_>) {
    let app = &info.call.worker.app;
    let connected = app.clients.list();
    let sums = app.telemetry.sums_since_reset();
    info.line("larder_connected_clients", connected.len());
    info.line("larder_max_clients", app.clients.limit());
    info.line("larder_blocked_clients", connected.iter().filter(|client| client.blocked.load(Relaxed)).count());
    info.line("larder_pubsub_clients", connected.iter().filter(|client| client.subscribed.load(Relaxed)).count());
    info.line("larder_tracking_clients", app.clients.tracking());
    let all = app.telemetry.sums();
    let on_ring = all.io_uring_connections_begun.saturating_sub(all.io_uring_connections_ended);
    info.line("larder_io_uring_connections", on_ring);
    info.line("larder_connections_received", sums.redis_connections_opened);
    info.line("larder_rejected_connections", sums.connections_refused);
    info.line("larder_backlog_disconnections", app.tables.backlog.cut_off());
}

fn tier(info: &mut Info<'_, '_>) {
    // Without a Redis source they are in section Memory as well.
    buffer_kinds(info);
    let tier = info.tier;
    info.line("larder_keys", tier.entries);
    info.line("larder_used_memory", tier.used_bytes);
    info.line("larder_max_memory", tier.max_bytes);
    info.line("larder_eviction", eviction_name(info.call.cache().eviction()));
    info.line("larder_hits", tier.hits);
    info.line("larder_reply_hits", tier.derived_hits);
    info.line("larder_misses", tier.misses + tier.negative_hits);
    info.line("larder_hit_ratio", format_args!("{:.4}", hit_ratio(&tier).unwrap_or_default()));
    info.line("larder_evicted_keys", tier.evictions);
    info.line("larder_expired_keys", tier.expirations);
    let modes = &info.call.group().policy.modes;
    let counts = modes.snapshot();
    info.line("larder_mode_rules", mode_rules_text(&modes.table()));
    info.line("larder_mode_rules_lost_at_restart", u8::from(modes.are_changed()));
    info.line("larder_observed_hits", counts.observed_hits);
    info.line("larder_observed_misses", counts.observed_misses);
    info.line("larder_denied_reads", counts.denied_reads);
}

fn mirror(info: &mut Info<'_, '_>) {
    let group = info.call.worker.app.groups.default();
    let (Some(url), Some((_, mirror))) = (group.mirror_url(), group.mirror()) else { return };
    let counts = mirror.snapshot();
    info.line("larder_mirror", url);
    info.line("larder_mirror_state", counts.state());
    info.line("larder_mirror_queued", counts.queued);
    info.line("larder_mirror_scanned", counts.scanned);
    info.line("larder_mirror_copied", counts.copied);
    info.line("larder_mirror_different", counts.different);
    info.line("larder_mirror_left_out", counts.left_out);
    info.line("larder_mirror_forgotten", counts.forgotten);
    info.line("larder_mirror_errors", counts.errors);
}

fn source(info: &mut Info<'_, '_>) {
    let group = info.call.worker.app.groups.default();
    let health = group.source().health();
    if group.source_url().class() != SourceClass::Memory {
        info.line("larder_source", group.source_url());
    }
    let state = match () {
        () if health.is_up() => "up",
        () if health.is_lost() => "down",
        () if health.was_up() => "reconnecting",
        () => "connecting",
    };
    info.line("larder_source_state", state);
    // The reason must fit on one line.
    let error = health.last_error().map(|error| error.replace(['\r', '\n'], " ")).unwrap_or_default();
    info.line("larder_source_last_error", error);
    info.line("larder_source_fetches", health.fetches());
    info.line("larder_source_fetch_errors", health.errors());
    info.line("larder_source_in_flight", health.in_flight());
    let admission = health.admission_snapshot();
    info.line("larder_source_waiting", admission.waiting);
    info.line("larder_source_limit", admission.limit);
    info.line("larder_source_circuit", admission.circuit_now().unwrap_or("none"));
    info.line("larder_source_circuit_opened", admission.opened);
    info.line("larder_source_rejected_circuit", admission.rejected_circuit);
    info.line("larder_source_rejected_limit", admission.rejected_limit);
    info.line("larder_source_rejected_background", admission.rejected_background);
    info.line("larder_source_retries", admission.retries);
    info.line("larder_source_retries_denied", admission.retries_denied);
    info.line("larder_source_reconnects", health.reconnects());
    info.line("larder_source_tracking_connections", health.tracking());
    let (lag, bytes) = health.lag();
    info.line("larder_source_lag_ms", lag);
    info.line("larder_source_lag_bytes", bytes);
    info.line("larder_source_replica_lag_ms", health.replica_lag());
    for (number, (address, is_up)) in group.source().driver().iter().flat_map(|driver| &driver.nodes).enumerate() {
        let state = if *is_up { "up" } else { "away" };
        info.line(&format!("larder_source_node{number}"), format_args!("address={address},state={state}"));
    }
}
