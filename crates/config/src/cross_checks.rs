//! Checks of settings against each other and against the machine: problems that stop the start, and
//! warnings.
use super::{
    effective_values::{EffectiveSettings, NamedTable, prefix},
    fill_settings::passthrough,
    listen_address::Address,
    machine_limits::Machine,
    otlp_settings::{FIXED_HEADERS, IS_BUILT_IN},
    peer_checks::check_peers,
    sent_header::SentHeader,
    settings::{Coherence, FreshnessSettings, GroupSettings, Settings, TierMode},
    settings_table::{Fallback, find},
    snapshot_settings::BucketSettings,
    source_url::{Deployment, SourceClass, SourceUrl},
    trusted_proxies::ProxyProtocol,
};
use larder_units::{parse_duration, show_duration, show_rounded_size, show_size};
use std::time::Duration;

/// The settings that are addresses to listen on.
const LISTENERS: [&str; 7] = ["http", "https", "redis", "rediss", "memcached", "memcacheds", "admin"];

/// Problems that no single value shows: addresses used twice, nothing to serve.
pub(super) fn compare(scopes: &[EffectiveSettings], problems: &mut Vec<String>) {
    let scope = &scopes[0];
    let is_listener = |scope: &&EffectiveSettings| matches!(scope.table, Some(NamedTable::Listener(_)));
    let all = LISTENERS.map(|name| (scope, name)).into_iter();
    let named = scopes.iter().filter(is_listener);
    let all = all.chain(named.flat_map(|scope| [(scope, "redis"), (scope, "rediss")]));
    let mut seen: Vec<(Address, String)> = Vec::new();
    for (scope, name) in all {
        let whole = format!("{}{name}", prefix(scope.table.as_ref()));
        for address in scope.addresses(name) {
            match seen.iter().find(|(other, _)| *other == address && (address.port() != 0 || address.path().is_some()))
            {
                Some((_, other)) => problems
                    .push(format!("{}: {whole}: {address} is already taken by {other}", scope.effective(name).origin)),
                None => seen.push((address, whole.clone())),
            }
        }
    }
    let unset = |name: &str| !scope.is_set(name);
    let serves_nothing = LISTENERS.into_iter().filter(|name| *name != "admin").all(unset);
    if problems.is_empty() && serves_nothing && !scopes.iter().any(|scope| is_listener(&scope)) {
        let origin = &scope.effective("http").origin;
        problems.push(format!("{origin}: http: both http and redis are off: there is nothing to serve"));
    }
    if !unset("peers") && unset("peer-self") {
        let origin = &scope.effective("peers").origin;
        problems.push(format!(
            "{origin}: peers: peer-self must be set: `http` does not say how the other nodes reach this one"
        ));
    }
    let paths = |name: &str| scope.text(name).map(|path| format!("{}/", path.trim_end_matches('/')));
    if let (Some(items), Some(redis)) = (paths("item-prefix"), paths("redis-http-prefix"))
        && redis != "/"
        && (items.starts_with(&redis) || redis.starts_with(&items))
    {
        let origin = &scope.effective("redis-http-prefix").origin;
        problems.push(format!("{origin}: redis-http-prefix: paths below {redis} and those of item-prefix overlap"));
    }
    check_peers(scope, problems);
}

/// Listeners that serve other machines without asking who they are.
pub(super) fn check_open_listeners(scopes: &[EffectiveSettings], problems: &mut Vec<String>) {
    let top = &scopes[0];
    let is_set = |name: &str| top.is_set(name);
    let asks_source = passthrough(top).is_some();
    if !problems.is_empty() || top.is_on("insecure") || is_set("password") || is_set("users-file") || asks_source {
        return;
    }
    let mut open = Vec::new();
    let wants_certificates = is_set("tls-client-ca") && top.text("tls-client-auth") != Some("optional");
    let is_listener = |scope: &&EffectiveSettings| matches!(scope.table, Some(NamedTable::Listener(_)));
    let named = scopes.iter().filter(is_listener).flat_map(|scope| [(scope, "redis"), (scope, "rediss")]);
    let all = LISTENERS.map(|name| (top, name)).into_iter().chain(named);
    for (scope, name) in all {
        let speaks_tls = matches!(name, "https" | "rediss" | "memcacheds") || name == "admin" && top.is_on("admin-tls");
        let origin = &scope.effective(name).origin;
        // The variables of other proxies mean what they mean there.
        if wants_certificates && speaks_tls || origin.to_string().contains("PROXY_") {
            continue;
        }
        if let Some(address) = scope.all(name).find(|address: &&Address| !address.ip().to_canonical().is_loopback()) {
            let whole = format!("{}{name}", prefix(scope.table.as_ref()));
            open.push(format!(
                "{origin}: {whole}: {address} is open to other machines, and clients need no authentication: set password or users-file, listen on 127.0.0.1, or set insecure"
            ));
        }
    }
    problems.append(&mut open);
}

/// TLS settings that lack another.
pub(super) fn check_tls(scopes: &[EffectiveSettings], problems: &mut Vec<String>) {
    let top = &scopes[0];
    let is_set = |name: &str| top.is_set(name);
    let mut problem = |scope: &EffectiveSettings, name: &str, what: &str| {
        let path = prefix(scope.table.as_ref());
        problems.push(format!("{}: {path}{name}: {what}", scope.effective(name).origin));
    };
    let (certificates, keys) = (top.texts("tls-cert").len(), top.texts("tls-key").len());
    if certificates != keys {
        let name = if certificates > 0 { "tls-cert" } else { "tls-key" };
        problem(top, name, &format!("each tls-cert needs its tls-key: there are {certificates} and {keys}"));
    }
    let listens = |scope: &&EffectiveSettings| matches!(scope.table, None | Some(NamedTable::Listener(_)));
    for scope in scopes.iter().filter(listens).filter(|_| certificates == 0) {
        if scope.is_set("rediss") {
            problem(scope, "rediss", "tls-cert and tls-key must be set");
        }
    }
    for name in ["https", "memcacheds", "admin-tls", "peer-tls-ca"] {
        if certificates == 0 && (is_set(name) && top.one(name) != Some(&false)) {
            problem(top, name, "tls-cert and tls-key must be set");
        }
    }
    if top.is_on("admin-tls") && !is_set("admin") {
        problem(top, "admin-tls", "has no meaning without admin");
    }
    if top.text("tls-client-auth") == Some("optional") && !is_set("tls-client-ca") {
        problem(top, "tls-client-auth", "has no meaning without tls-client-ca");
    }
    if !matches!(top.text("tls-client-user"), None | Some("off")) && !is_set("tls-client-ca") {
        problem(top, "tls-client-user", "has no meaning without tls-client-ca");
    }
    if is_set("peer-tls-ca") && !is_set("https") {
        problem(top, "peer-tls-ca", "https must be set: the other nodes reach this one there");
    }
    if is_set("peer-tls-name") && !is_set("peer-tls-ca") {
        problem(top, "peer-tls-name", "has no meaning without peer-tls-ca");
    }
}

/// `auth = "passthrough"` needs a source that checks users, and listeners whose clients it can
/// check.
pub(super) fn check_passthrough(top: &EffectiveSettings, problems: &mut Vec<String>) {
    if passthrough(top).is_none() {
        return;
    }
    let mut problem =
        |what: &str| problems.push(format!("{}: auth: passthrough: {what}", top.effective("auth").origin));
    let has_users = |source: &SourceUrl| matches!(source, SourceUrl::Redis(url) if !matches!(url.deployment, Deployment::Cluster { .. }));
    if !top.one("source").is_some_and(has_users) {
        problem("source must be one Redis, which checks the users (redis:, rediss:, unix: or redis+sentinel:)");
    }
    for name in ["password", "users-file"] {
        if top.is_set(name) {
            problem(&format!("{name} has no meaning: the source checks the users"));
        }
    }
    if top.is_set("peers") {
        problem("peers has no meaning: nodes serve each other without asking for users");
    }
}

/// A mirror that cannot be made equal to the source.
pub(super) fn check_mirror(scope: &EffectiveSettings, problems: &mut Vec<String>) {
    if matches!(scope.table, Some(NamedTable::Listener(_) | NamedTable::Prefix(..))) {
        return;
    }
    let (Some(mirror), Some(source)) = (scope.one::<SourceUrl>("mirror"), scope.one("source")) else { return };
    let is_copied =
        |url: &SourceUrl| matches!(url.class(), SourceClass::Store | SourceClass::SharedStore | SourceClass::Redis);
    let what = match () {
        () if mirror == source => "is the source itself".to_owned(),
        () if !is_copied(source) => format!("source {source} has no mirror: stores and Redis servers have"),
        () if !is_copied(mirror) => format!("{mirror} cannot be a mirror: stores and Redis servers can"),
        () => return,
    };
    problems.push(format!("{}: {}mirror: {what}", scope.effective("mirror").origin, prefix(scope.table.as_ref())));
}

/// Redis refuses prefixes of which one begins with another.
pub(super) fn compare_prefixes(scope: &EffectiveSettings, problems: &mut Vec<String>) {
    if matches!(scope.table, Some(NamedTable::Listener(_) | NamedTable::Prefix(..))) {
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

/// A collector that this build cannot send to, or none.
pub(super) fn check_otlp(settings: &Settings, top: &EffectiveSettings, problems: &mut Vec<String>) {
    let mut problem = |name: &str, what: &str| problems.push(format!("{}: {name}: {what}", top.effective(name).origin));
    let mut headers = top.all::<SentHeader>("otlp-headers");
    if let Some(fixed) = headers.find(|header| FIXED_HEADERS.contains(&header.name.as_str())) {
        problem("otlp-headers", &format!("Larder itself decides about `{}`", fixed.name));
    }
    match top.text("otlp-endpoint") {
        None if top.is_set("otlp-headers") => problem("otlp-headers", "has no meaning without otlp-endpoint"),
        None => {}
        Some(_) if !IS_BUILT_IN => problem(
            "otlp-endpoint",
            "this build lacks the feature `otlp`: build Larder with `cargo build --release --features otlp`",
        ),
        Some(text) if settings.otlp.is_none() => {
            problem(
                "otlp-endpoint",
                &format!("`{text}` is not the URL of a collector: write http://HOST:4318 or https://HOST:4318?ca=FILE"),
            );
        }
        Some(_) => {}
    }
}

/// Snapshots that could not be written, or not be restored.
pub(super) fn check_snapshots(settings: &Settings, top: &EffectiveSettings, problems: &mut Vec<String>) {
    let snapshot = &settings.snapshot;
    let mut problem = |name: &str, what: &str| problems.push(format!("{}: {name}: {what}", top.effective(name).origin));
    if let Some(Err(wrong)) = top.text("snapshot-file").map(BucketSettings::parse) {
        problem("snapshot-file", &wrong);
    }
    if snapshot.file.is_none() {
        if !snapshot.interval.is_empty() {
            problem("snapshot-interval", "has no meaning without snapshot-file");
        }
        if snapshot.restore {
            problem("restore", "has no meaning without snapshot-file");
        }
        return;
    }
    if settings.groups.iter().all(|group| group.outside_snapshots().is_some()) {
        let reasons = settings
            .groups
            .iter()
            .filter_map(|group| Some(format!("group {}: {}", group.name, group.outside_snapshots()?)));
        problem(
            "snapshot-file",
            &format!("no group would be in the snapshot ({})", reasons.collect::<Vec<_>>().join("; ")),
        );
    }
}

/// Groups that are in no snapshot.
fn outside_snapshots(settings: &Settings) -> impl Iterator<Item = String> {
    let groups = settings.groups.iter().filter(|_| settings.snapshot.file.is_some());
    groups.filter_map(|group| Some(format!("group {} is in no snapshot: {}", group.name, group.outside_snapshots()?)))
}

/// Memory bounds that no machine of this kind can hold, even with swap: a wrong unit, most often.
pub(super) fn check_memory(settings: &Settings, machine: &Machine, problems: &mut Vec<String>) {
    const TOO_MUCH: u64 = 4;
    let total: usize = settings.groups.iter().map(|group| group.max_memory).sum();
    if total as u64 > machine.memory.saturating_mul(TOO_MUCH) {
        problems.push(format!(
            "max-memory is {} in all, more than {TOO_MUCH} times the {} that this process may use: write at most {}MiB, \
             or leave it out for a quarter of that memory",
            show_size(total as u64),
            show_rounded_size(machine.memory),
            machine.memory >> 20
        ));
    }
}

/// What is allowed but looks wrong.
pub(super) fn warnings(settings: &Settings, machine: &Machine) -> Vec<String> {
    let total: usize = settings.groups.iter().map(|group| group.max_memory).sum();
    let mut warnings = Vec::new();
    if total as u64 > machine.memory {
        warnings.push(format!(
            "max-memory is {} in all, more than the {} that this process may use: the kernel may kill it",
            show_size(total as u64),
            show_rounded_size(machine.memory)
        ));
    }
    for group in &settings.groups {
        if !group.tracking_prefixes.is_empty() && group.coherence != Coherence::Coherent {
            warnings
                .push(format!("tracking-prefixes of group {} mean nothing unless coherence is coherent", group.name));
        }
    }
    for group in &settings.groups {
        let has_mode = group.mode != TierMode::Cache || group.prefixes.iter().any(|of| of.mode != TierMode::Cache);
        if has_mode && group.source.has_one_answer() {
            let (name, source) = (&group.name, &group.source);
            warnings
                .push(format!("mode means nothing in group {name}: with source {source} reads have no other answer"));
        }
    }
    warnings.extend(settings.groups.iter().filter_map(endless_copies));
    for group in &settings.groups {
        stale_bounds(group, &mut warnings);
    }
    warnings.extend(proxies_unnamed(settings));
    warnings.extend(trusted_by_all(settings));
    warnings.extend(nodes_without_secret(settings));
    warnings.extend(no_login_at_primary(settings));
    warnings.extend(outside_snapshots(settings));
    warnings
}

/// A group that keeps for ever what its source says no lifetime of.
fn endless_copies(group: &GroupSettings) -> Option<String> {
    let never_seen = match group.source {
        SourceUrl::Http(_) => "what its HTTP source sends without Cache-Control or Expires is never renewed",
        SourceUrl::Cassandra(_) => "what other programs and other Larders write to its cluster is never seen",
        _ => return None,
    };
    group.freshness.ttl.is_none().then(|| format!("group {} has no ttl: {never_seen}", group.name))
}

/// Whether a soft timeout is the default of the table.
fn is_default_soft_timeout(soft: Duration) -> bool {
    let setting = find("soft-timeout");
    setting
        .is_some_and(|of| matches!(of.default, Fallback::Is(text) if parse_duration(text).is_ok_and(|is| is == soft)))
}

/// Freshness settings of a group and of its prefixes that cannot do what they say.
fn stale_bounds(group: &GroupSettings, warnings: &mut Vec<String>) {
    let check = |warnings: &mut Vec<String>,
                 whose: String,
                 fresh: &FreshnessSettings,
                 inherited: Option<&FreshnessSettings>| {
        // What a prefix has from its group is reported once.
        let is_new = |same: &dyn Fn(&FreshnessSettings) -> bool| inherited.is_none_or(|group| !same(group));
        let mut warn = |text: String| warnings.push(format!("{whose}: {text}"));
        if let Some(max) = fresh.max_stale {
            for (name, value) in
                [("stale-if-error", fresh.stale_if_error), ("stale-while-revalidate", fresh.stale_while_revalidate)]
            {
                let same = |group: &FreshnessSettings| {
                    (group.max_stale, group.stale_if_error, group.stale_while_revalidate)
                        == (fresh.max_stale, fresh.stale_if_error, fresh.stale_while_revalidate)
                };
                if value > max && is_new(&same) {
                    let (value, max) = (show_duration(value), show_duration(max));
                    warn(format!("max-stale ({max}) is shorter than {name} ({value}), which it shortens to {max}"));
                }
            }
        }
        if let Some(soft) = fresh.soft_timeout
            && !is_default_soft_timeout(soft)
            && soft >= fresh.source_timeout
            && !group.source.has_one_answer()
            && is_new(&|group| (group.soft_timeout, group.source_timeout) == (fresh.soft_timeout, fresh.source_timeout))
        {
            let (soft, hard) = (show_duration(soft), show_duration(fresh.source_timeout));
            warn(format!("soft-timeout ({soft}) is not shorter than source-timeout ({hard}), so it has no effect"));
        }
        let endless = |fresh: &FreshnessSettings| fresh.ttl.is_none() && !fresh.stale_while_revalidate.is_zero();
        if endless(fresh) && lifetimes_only_from_here(group) && is_new(&endless) {
            warn("stale-while-revalidate means nothing without a ttl: no copy gets out of date".to_string());
        }
    };
    check(warnings, format!("group {}", group.name), &group.freshness, None);
    for prefix in &group.prefixes {
        let whose = format!("prefix `{}` of group {}", prefix.prefix, group.name);
        let (own, of_group) = (prefix.freshness.source_timeout, group.freshness.source_timeout);
        if own != of_group && !matches!(group.source, SourceUrl::Http(_) | SourceUrl::Demo(_)) {
            let (own, of_group) = (show_duration(own), show_duration(of_group));
            warnings.push(format!("{whose}: source-timeout ({own}) has no effect: fetches from this source have that of the group ({of_group})"));
        }
        check(warnings, whose, &prefix.freshness, Some(&group.freshness));
    }
}

/// Whether no answer of the group's source says how long its value lives. Redis and HTTP APIs do.
fn lifetimes_only_from_here(group: &GroupSettings) -> bool {
    !matches!(group.source, SourceUrl::Redis(_) | SourceUrl::Http(_))
}

/// Listeners that expect PROXY headers of proxies that are not named.
fn proxies_unnamed(settings: &Settings) -> Option<String> {
    let protocols = settings.listeners.iter().map(|listener| listener.proxy_protocol);
    let expects = protocols.chain([settings.proxy_protocol]).any(|protocol| protocol != ProxyProtocol::Off);
    (expects && settings.proxies.trusted.is_empty())
        .then(|| "proxy-protocol has no effect without trusted-proxies: no address may send the header".to_owned())
}

/// Ranges of proxies that have every address.
fn trusted_by_all(settings: &Settings) -> Option<String> {
    let range = settings.proxies.trusted.iter().find(|range| range.prefix_len() == 0)?;
    Some(format!("trusted-proxies has {range}: every client may say that it is another"))
}

/// A replica with a password that it may not send where HTTP writes go.
fn no_login_at_primary(settings: &Settings) -> Option<String> {
    let replication = &settings.replication;
    let primary = replication.writes.primary_http().filter(|primary| primary.0.tls.is_none())?;
    (replication.replica_of.is_some() && settings.password.is_some()).then(|| {
        format!(
            "replica-writes = forward:{primary} is without TLS, so the password is not sent there: a primary that asks for it refuses writes over HTTP; write forward:https://host:port?ca=FILE"
        )
    })
}

/// Routes between nodes that ask for a user, which no node is.
fn nodes_without_secret(settings: &Settings) -> Option<String> {
    let asks = settings.password.is_some() || settings.users_file.is_some();
    let shows = settings.peers.secret.is_some() || settings.peers.tls.is_some();
    (asks && settings.peers.are_set() && !shows).then(|| {
        "peers have no peer-secret and no peer-tls-ca: with password or users-file they refuse each other".to_owned()
    })
}
