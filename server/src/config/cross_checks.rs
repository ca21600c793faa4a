//! Checks of settings against each other and against the machine: problems that stop the start, and warnings.
use super::{
    effective_values::{EffectiveSettings, NamedTable, prefix},
    machine_limits::Machine,
    raw_settings::Layer,
    settings::{Coherence, GroupSettings, Settings},
    source_url::SourceUrl,
};
use larder_units::show_size;
use std::net::SocketAddr;

/// Problems that no single value shows: addresses used twice, nothing to serve, a burst without its rate.
pub(super) fn compare(scopes: &[EffectiveSettings], top: &Layer, problems: &mut Vec<String>) {
    let scope = &scopes[0];
    let is_listener = |scope: &&EffectiveSettings| matches!(scope.table, Some(NamedTable::Listener(_)));
    let all = ["http", "redis", "admin"].map(|name| (scope, name)).into_iter();
    let all = all.chain(scopes.iter().filter(is_listener).map(|scope| (scope, "redis")));
    let mut seen: Vec<(SocketAddr, String)> = Vec::new();
    for (scope, name) in all {
        let whole = format!("{}{name}", prefix(scope.table.as_ref()));
        for address in scope.addresses(name) {
            match seen.iter().find(|(other, _)| *other == address && address.port() != 0) {
                Some((_, other)) => problems
                    .push(format!("{}: {whole}: {address} is already taken by {other}", scope.effective(name).origin)),
                None => seen.push((address, whole.clone())),
            }
        }
    }
    let unset = |name: &str| scope.effective(name).values.is_empty();
    if problems.is_empty() && unset("http") && unset("redis") && !scopes.iter().any(|scope| is_listener(&scope)) {
        let origin = &scope.effective("http").origin;
        problems.push(format!("{origin}: http: both http and redis are off: there is nothing to serve"));
    }
    for rate in ["throttle", "throttle-total", "throttle-admin"] {
        let burst = format!("{rate}-burst");
        // Where the rate was switched off by hand, a burst left over from a lower layer does no harm.
        if let (Some(raw), true, false) = (top.get(burst.as_str()), unset(rate), top.contains_key(rate)) {
            problems.push(format!("{}: {burst}: has no meaning without {rate}", raw.origin));
        }
    }
}

/// Redis refuses prefixes of which one begins with another.
pub(super) fn compare_prefixes(scope: &EffectiveSettings, problems: &mut Vec<String>) {
    if matches!(scope.table, Some(NamedTable::Listener(_))) {
        return;
    }
    let prefixes = scope.tracking_prefixes();
    let name = prefix(scope.table.as_ref());
    let origin = &scope.effective("tracking-prefixes").origin;
    for (at, one) in prefixes.iter().enumerate() {
        if let Some(other) = prefixes[..at].iter().find(|other| other.starts_with(one) || one.starts_with(**other)) {
            problems
                .push(format!("{origin}: {name}tracking-prefixes: `{one}` and `{other}`: one begins with the other"));
        }
    }
}

/// What is allowed but looks wrong.
pub(super) fn warnings(settings: &Settings, machine: &Machine) -> Vec<String> {
    let total: usize = settings.groups.iter().map(|group| group.max_memory).sum();
    let mut warnings = Vec::new();
    if total as u64 > machine.memory {
        warnings.push(format!(
            "max-memory is {} in all, more than the {} that this process may use",
            show_size(total as u64),
            show_size(machine.memory)
        ));
    }
    for group in &settings.groups {
        if !group.tracking_prefixes.is_empty() && group.coherence != Coherence::Coherent {
            warnings
                .push(format!("tracking-prefixes of group {} mean nothing unless coherence is coherent", group.name));
        }
    }
    warnings.extend(settings.groups.iter().filter_map(endless_copies));
    warnings.extend(unguarded_listeners(settings));
    warnings
}

/// A group that keeps for ever what an HTTP API says no lifetime of.
fn endless_copies(group: &GroupSettings) -> Option<String> {
    (matches!(group.source, SourceUrl::Http(_)) && group.ttl.is_none()).then(|| {
        format!(
            "group {} has no ttl: what its HTTP source sends without Cache-Control or Expires is never renewed",
            group.name
        )
    })
}

/// Listeners that serve every client although `password` is set.
fn unguarded_listeners(settings: &Settings) -> Option<String> {
    settings.password.as_ref()?;
    let http = settings.http.iter().map(|address| format!("http {address}"));
    let admin = settings.admin.iter().map(|address| format!("admin {address}"));
    let open: Vec<_> = http.chain(admin).collect();
    if open.is_empty() {
        return None;
    }
    Some(format!("password guards the Redis listeners only: every client that can reach {} is served", open.join(", ")))
}
