//! From text to [`Settings`]: every value read by its kind, defaults worked out, and what must fit together compared.
use super::{
    AccessSettings, Coherence, CommandList, ConfigError, GroupSettings, ListenerSettings, LogFormat, LogLevel, Machine,
    Rate, Secret, Settings, SourceUrl,
    setting_value::{Value, is_off, parse},
    settings_table::{Fallback, Kind, Setting, TABLE},
    typed_values::{Layer, Origin, Raw, RawValue},
};
use larder_store::disk::{Compression, StoreSettings};
use larder_units::show_size;
use std::{net::SocketAddr, time::Duration};

/// One setting's effective value.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// Its row.
    pub setting: &'static Setting,
    /// None: off.
    pub values: Vec<Value>,
    /// Where it was set.
    pub origin: Origin,
}
impl Effective {
    /// Its name, and its values as text: `none` if there are none. A secret is not shown; a password in a URL is left out by the URL.
    fn shown(&self) -> Option<(&'static str, String)> {
        let is_secret = matches!(self.setting.kind, Kind::Secret);
        let values: Vec<String> = self.values.iter().map(Value::to_string).collect();
        let text = if values.is_empty() { "none".to_owned() } else { values.join(",") };
        (!is_secret).then_some((self.setting.name, text))
    }
}
impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// A table with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Table {
    Group(String),
    Listener(String),
}
impl Table {
    /// Its place in the file: `groups` or `listeners`, and its name.
    pub(super) fn path(&self) -> (&'static str, &str) {
        match self {
            Table::Group(name) => ("groups", name),
            Table::Listener(name) => ("listeners", name),
        }
    }
    fn takes(&self, setting: &Setting) -> bool {
        match self {
            Table::Group(_) => setting.per_group,
            Table::Listener(_) => setting.per_listener,
        }
    }
}

/// The effective values of the process with group `default`, of a named group, or of a named listener.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    /// `None`: the process and group `default`.
    pub table: Option<Table>,
    /// In the order of the table.
    pub values: Vec<Effective>,
}

/// A configuration that holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// What the server reads.
    pub settings: Settings,
    /// What `config print` shows.
    pub scopes: Vec<Scope>,
    /// What is allowed but looks wrong.
    pub warnings: Vec<String>,
}

/// Checks everything; all problems are reported at once.
pub(super) fn check(raw: &Raw, machine: &Machine, mut problems: Vec<String>) -> Result<Config, ConfigError> {
    let mut scopes = vec![scope(None, &raw.top, machine, &mut problems)];
    for group in &raw.groups {
        if !group.layer.contains_key("max-memory") {
            problems.push(format!(
                "{}: groups.{}.max-memory: must be set: each named group has a bound of its own",
                group.origin, group.name
            ));
        }
        scopes.push(scope(Some(Table::Group(group.name.clone())), &group.layer, machine, &mut problems));
    }
    for listener in &raw.listeners {
        let (origin, name) = (&listener.origin, &listener.name);
        if !listener.layer.contains_key("redis") {
            problems.push(format!(
                "{origin}: listeners.{name}.redis: must be set: each listener has an address of its own"
            ));
        }
        // What it does not set is as at the top level.
        let mut layer = raw.top.clone();
        layer.insert("redis", RawValue { texts: Vec::new(), origin: origin.clone() });
        layer.extend(listener.layer.clone());
        scopes.push(scope(Some(Table::Listener(name.clone())), &layer, machine, &mut problems));
    }
    compare(&scopes, &raw.top, &mut problems);
    scopes.iter().for_each(|scope| compare_prefixes(scope, &mut problems));
    if !problems.is_empty() {
        return Err(ConfigError(problems));
    }
    let settings = settings(&scopes);
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
    warnings.extend(open_doors(&settings));
    Ok(Config { settings, scopes, warnings })
}

/// Listeners that serve everyone although `password` is set.
fn open_doors(settings: &Settings) -> Option<String> {
    settings.password.as_ref()?;
    let http = settings.http.iter().map(|address| format!("http {address}"));
    let admin = settings.admin.iter().map(|address| format!("admin {address}"));
    let open: Vec<_> = http.chain(admin).collect();
    if open.is_empty() {
        return None;
    }
    Some(format!("password guards the Redis listeners only: every client that can reach {} is served", open.join(", ")))
}

fn scope(table: Option<Table>, layer: &Layer, machine: &Machine, problems: &mut Vec<String>) -> Scope {
    let prefix = prefix(table.as_ref());
    let mut scope = Scope { table, values: Vec::new() };
    for setting in TABLE.iter().filter(|setting| scope.table.as_ref().is_none_or(|table| table.takes(setting))) {
        let (texts, origin) = match (layer.get(setting.name), setting.default) {
            (Some(raw), _) => (raw.texts.clone(), raw.origin.clone()),
            (None, Fallback::Is(text)) => (vec![text.to_string()], Origin::Default),
            (None, _) => (Vec::new(), Origin::Default),
        };
        let off = setting.optional && matches!(texts.as_slice(), [text] if text.is_empty() || is_off(text));
        let mut values = Vec::new();
        for text in texts.iter().filter(|_| !off) {
            match parse(setting, text, machine) {
                Ok(value) => values.push(value),
                Err(error) => problems.push(format!("{origin}: {prefix}{}: {error}", setting.name)),
            }
        }
        scope.values.push(Effective { setting, values, origin });
    }
    // A second pass: these look at what others came out as.
    for at in 0..scope.values.len() {
        let Effective { setting, origin, .. } = &scope.values[at];
        if matches!(setting.default, Fallback::Computed(_)) && *origin == Origin::Default {
            scope.values[at].values = computed(setting.name, &scope, machine);
        }
    }
    scope
}

/// What stands before a setting's name in a message.
fn prefix(table: Option<&Table>) -> String {
    table.map_or(String::new(), |table| {
        let (tables, name) = table.path();
        format!("{tables}.{name}.")
    })
}

fn computed(name: &str, scope: &Scope, machine: &Machine) -> Vec<Value> {
    let burst = |rate| scope.rate(rate).map(|n| Value::Count(n.into()));
    let value = match name {
        "max-memory" => Some(Value::Size(((machine.memory / 4) >> 20 << 20).max(1 << 20))),
        "max-buffers" => Some(Value::Size(((machine.memory / 8) >> 20 << 20).max(32 << 20))),
        "max-body" => scope.one("max-value").cloned(),
        "threads" => Some(Value::Count(machine.cores as u64)),
        "store-threads" => Some(Value::Count((2 * machine.cores as u64).clamp(1, 16))),
        "store-block-cache" => Some(Value::Size(((machine.memory / 16) >> 20 << 20).max(32 << 20))),
        "throttle-burst" => burst("throttle"),
        "throttle-total-burst" => burst("throttle-total"),
        "throttle-admin" => scope.rate("throttle").map(|n| Value::Rate((n / 10).max(1))),
        "throttle-admin-burst" => burst("throttle-admin"),
        _ => None,
    };
    value.into_iter().collect()
}

/// What no single value shows.
fn compare(scopes: &[Scope], top: &Layer, problems: &mut Vec<String>) {
    let scope = &scopes[0];
    let is_listener = |scope: &&Scope| matches!(scope.table, Some(Table::Listener(_)));
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

/// What all keys begin with is written `*`.
fn tracking_prefixes(scope: &Scope) -> Vec<&str> {
    scope.texts("tracking-prefixes").into_iter().map(|prefix| if prefix == "*" { "" } else { prefix }).collect()
}

/// Redis refuses prefixes of which one begins with another.
fn compare_prefixes(scope: &Scope, problems: &mut Vec<String>) {
    if matches!(scope.table, Some(Table::Listener(_))) {
        return;
    }
    let prefixes = tracking_prefixes(scope);
    let name = prefix(scope.table.as_ref());
    let origin = &scope.effective("tracking-prefixes").origin;
    for (at, one) in prefixes.iter().enumerate() {
        if let Some(other) = prefixes[..at].iter().find(|other| other.starts_with(one) || one.starts_with(**other)) {
            problems
                .push(format!("{origin}: {name}tracking-prefixes: `{one}` and `{other}`: one begins with the other"));
        }
    }
}

fn settings(scopes: &[Scope]) -> Settings {
    let top = &scopes[0];
    let rate = |name: &str| {
        let burst = top.count(&format!("{name}-burst"));
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        top.rate(name).map(|per_second| Rate { per_second, burst: burst.map_or(per_second, clamp) })
    };
    Settings {
        http: top.addresses("http"),
        redis: top.addresses("redis"),
        admin: top.addresses("admin").first().copied(),
        access: access(top),
        listeners: scopes.iter().filter_map(listener).collect(),
        groups: scopes.iter().filter_map(group).collect(),
        threads: top.number("threads"),
        data_dir: top.text("data-dir").map(Into::into),
        password: top.secret("password"),
        max_key: top.number("max-key"),
        max_value: top.number("max-value"),
        max_body: top.number("max-body"),
        max_headers: top.number("max-headers"),
        max_pipeline: top.number("max-pipeline"),
        max_buffers: top.number("max-buffers"),
        max_backlog: top.number("max-backlog"),
        tracking_table_max_keys: top.number("tracking-table-max-keys"),
        max_connections: top.number("max-connections"),
        idle_timeout: top.duration("idle-timeout"),
        header_timeout: top.duration("header-timeout").unwrap_or_default(),
        grace: top.duration("grace").unwrap_or_default(),
        moving_endpoint: top.text("moving-endpoint").map(Into::into),
        source_timeout: top.duration("source-timeout").unwrap_or_default(),
        source_slow_timeout: top.duration("source-slow-timeout").unwrap_or_default(),
        source_max_in_flight: top.number("source-max-in-flight"),
        source_connections: top.number("source-connections"),
        throttle_client: rate("throttle"),
        throttle_total: rate("throttle-total"),
        throttle_admin: rate("throttle-admin"),
        log_level: top.text("log-level").and_then(LogLevel::from_name).unwrap_or(LogLevel::Info),
        log_format: LogFormat::from_name(top.text("log-format").unwrap_or_default()),
        shown: top.values.iter().filter_map(Effective::shown).collect(),
    }
}

fn access(scope: &Scope) -> AccessSettings {
    AccessSettings {
        forward_admin: scope.one("forward-admin") == Some(&Value::Switch(true)),
        deny_commands: CommandList::of(scope.texts("deny-commands")),
        allow_commands: CommandList::of(scope.texts("allow-commands")),
    }
}

fn listener(scope: &Scope) -> Option<ListenerSettings> {
    let Some(Table::Listener(name)) = &scope.table else { return None };
    Some(ListenerSettings { name: name.clone(), redis: scope.addresses("redis"), access: access(scope) })
}

fn group(scope: &Scope) -> Option<GroupSettings> {
    let name = match &scope.table {
        None => "default",
        Some(Table::Group(name)) => name,
        Some(Table::Listener(_)) => return None,
    };
    Some(GroupSettings {
        name: name.to_string(),
        source: match scope.one("source") {
            Some(Value::Source(url)) => url.clone(),
            _ => SourceUrl::None,
        },
        max_memory: scope.number("max-memory"),
        max_keys: scope.count("max-keys"),
        ttl: scope.duration("ttl"),
        ttl_jitter: scope.number("ttl-jitter") as u8,
        negative_ttl: scope.duration("negative-ttl"),
        coherence: Coherence::from_name(scope.text("coherence").unwrap_or_default()),
        tracking_prefixes: tracking_prefixes(scope).into_iter().map(str::to_string).collect(),
        cache_replies: scope.count("cache-replies"),
        store: StoreSettings {
            durability: match scope.one("durability") {
                Some(Value::Durability(durability)) => *durability,
                _ => StoreSettings::DEFAULT.durability,
            },
            write_buffer: scope.number("store-write-buffer") as u64,
            block_cache: scope.number("store-block-cache") as u64,
            compression: Compression::from_name(scope.text("store-compression").unwrap_or_default()),
            threads: scope.number("store-threads"),
            max_waiting: scope.number("store-max-waiting"),
        },
    })
}

/// Reading values out by name. The names and kinds are the table's, so a mismatch is a slip in this file; tests read every setting.
impl Scope {
    fn effective(&self, name: &str) -> &Effective {
        let found = self.values.iter().find(|effective| effective.setting.name == name);
        found.expect("the name is in the table and in this scope")
    }
    fn one(&self, name: &str) -> Option<&Value> {
        self.effective(name).values.first()
    }
    fn count(&self, name: &str) -> Option<usize> {
        match self.one(name) {
            Some(Value::Size(n) | Value::Count(n) | Value::Percent(n)) => Some(*n as usize),
            _ => None,
        }
    }
    fn number(&self, name: &str) -> usize {
        self.count(name).expect("a setting that is not optional has a number")
    }
    fn duration(&self, name: &str) -> Option<Duration> {
        match self.one(name) {
            Some(Value::Duration(duration)) => Some(*duration),
            _ => None,
        }
    }
    fn rate(&self, name: &str) -> Option<u32> {
        match self.one(name) {
            Some(Value::Rate(n)) => Some(*n),
            _ => None,
        }
    }
    fn text(&self, name: &str) -> Option<&str> {
        match self.one(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }
    fn texts(&self, name: &str) -> Vec<&str> {
        let values = self.effective(name).values.iter();
        values.filter_map(|v| if let Value::Text(text) = v { Some(text.as_str()) } else { None }).collect()
    }
    fn secret(&self, name: &str) -> Option<Secret> {
        match self.one(name) {
            Some(Value::Secret(secret)) => Some(secret.clone()),
            _ => None,
        }
    }
    fn addresses(&self, name: &str) -> Vec<SocketAddr> {
        let values = self.effective(name).values.iter();
        values.filter_map(|v| if let Value::Address(a) = v { Some(*a) } else { None }).collect()
    }
}
