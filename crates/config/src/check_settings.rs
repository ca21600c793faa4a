//! From text to values: reads every value by its kind, works out the defaults, and compares the
//! values with each other.
use super::{
    check_jwt::check_jwt,
    computed_defaults::computed,
    config_error::ConfigError,
    cross_checks::{
        check_memory, check_mirror, check_open_listeners, check_otlp, check_passthrough, check_snapshots, check_tls,
        compare, compare_prefixes, warnings,
    },
    effective_values::{EffectiveSettings, EffectiveValue, NamedTable, prefix},
    env_variables::{self, Env, env_warnings},
    fill_settings::settings,
    listen_address::Address,
    load_config::ConfigInput,
    machine_limits::Machine,
    parse_setting::{is_off, parse},
    query_settings::check_queries,
    raw_settings::{Layer, RawSettings, RawTable, RawValue, SettingOrigin},
    secret_files::read_secret_files,
    setting_value::SettingValue,
    settings::Settings,
    settings_table::{Fallback, all_settings},
};

/// A configuration without problems.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedConfig {
    /// What the server reads.
    pub settings: Settings,
    /// What `config print` shows.
    pub scopes: Vec<EffectiveSettings>,
    /// What is allowed but looks wrong.
    pub warnings: Vec<String>,
    /// What all this was read from.
    pub input: ConfigInput,
}

/// Of settings that a program made: there is nothing that could be read again.
impl From<Settings> for CheckedConfig {
    fn from(settings: Settings) -> CheckedConfig {
        let input =
            ConfigInput { flags: Layer::new(), file: None, env: Default::default(), machine: Machine::detect() };
        CheckedConfig { settings, scopes: Vec::new(), warnings: Vec::new(), input }
    }
}

/// Checks everything; all problems are reported at once.
pub(super) fn check(
    raw: &RawSettings,
    input: ConfigInput,
    mut problems: Vec<String>,
) -> Result<CheckedConfig, ConfigError> {
    let machine = &input.machine;
    let mut scopes = vec![scope(None, &raw.top, machine, &mut problems)];
    prefix_scopes(None, &raw.top, &raw.prefixes, machine, &mut scopes, &mut problems);
    for group in &raw.groups {
        if !group.layer.contains_key("max-memory") {
            problems.push(format!(
                "{}: groups.{}.max-memory: must be set: each named group has a bound of its own",
                group.origin, group.name
            ));
        }
        scopes.push(scope(Some(NamedTable::Group(group.name.clone())), &group.layer, machine, &mut problems));
        prefix_scopes(Some(&group.name), &group.layer, &group.prefixes, machine, &mut scopes, &mut problems);
    }
    for listener in &raw.listeners {
        let (origin, name) = (&listener.origin, &listener.name);
        if !listener.layer.contains_key("redis") && !listener.layer.contains_key("rediss") {
            problems.push(format!(
                "{origin}: listeners.{name}.redis: must be set, or rediss: each listener has an address of its own"
            ));
        }
        // A setting that the listener leaves out has the value of the top level.
        let mut layer = raw.top.clone();
        for address in ["redis", "rediss"] {
            layer.insert(address, RawValue { texts: Vec::new(), origin: origin.clone() });
        }
        layer.extend(listener.layer.clone());
        scopes.push(scope(Some(NamedTable::Listener(name.clone())), &layer, machine, &mut problems));
    }
    let http_group = scopes[0].text("http-group").unwrap_or("default");
    if http_group != "default" && !raw.groups.iter().any(|group| group.name == http_group) {
        let origin = &scopes[0].effective("http-group").origin;
        problems.push(format!("{origin}: http-group: there is no group `{http_group}`: add [groups.{http_group}]"));
    }
    read_secret_files(&mut scopes[0], &mut problems);
    compare(&scopes, &mut problems);
    check_tls(&scopes, &mut problems);
    check_open_listeners(&scopes, &mut problems);
    check_passthrough(&scopes[0], &mut problems);
    check_jwt(&scopes[0], &mut problems);
    check_queries(&scopes, &mut problems);
    scopes.iter().for_each(|scope| check_mirror(scope, &mut problems));
    scopes.iter().for_each(|scope| compare_prefixes(scope, &mut problems));
    if !problems.is_empty() {
        return Err(ConfigError(problems));
    }
    let settings = settings(&scopes);
    check_snapshots(&settings, &scopes[0], &mut problems);
    check_otlp(&settings, &scopes[0], &mut problems);
    check_memory(&settings, machine, &mut problems);
    if !problems.is_empty() {
        return Err(ConfigError(problems));
    }
    let mut warnings = warnings(&settings, machine);
    warnings.extend(env_warnings(&input.env, &raw.top));
    warnings.extend(overridden(&input.env, &scopes[0], machine));
    Ok(CheckedConfig { settings, scopes, warnings, input })
}

/// Variables of other programs whose values Larder's own variables override: where an image sets
/// those, a user does not see why another address or source is used.
fn overridden(env: &Env, top: &EffectiveSettings, machine: &Machine) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, RawValue { texts, origin }) in env_variables::foreign(env) {
        let EffectiveValue { setting, values, origin: wins } = top.effective(name);
        let SettingOrigin::Env(own) = wins else { continue };
        // What is for all programs of a pod is often set on purpose for another one.
        if *wins == origin || origin.to_string().contains("OTEL_") {
            continue;
        }
        // `PROXY_PORT` alone names no interface.
        let is_port = origin == SettingOrigin::Env("PROXY_PORT".to_owned());
        let holds = |wanted: &SettingValue| {
            let port = |value: &SettingValue| value.get().map(Address::port);
            let same = |value: &SettingValue| if is_port { port(value) == port(wanted) } else { value == wanted };
            values.iter().any(same)
        };
        let is_held = |text: &String| is_off(text) || parse(setting, text, machine).is_ok_and(|wanted| holds(&wanted));
        if !texts.iter().all(is_held) {
            let advice = if own == "LARDER_HTTP" { "; Larder's image sets that variable" } else { "" };
            warnings.push(format!("{origin}: without effect, because {own} sets {name}: set {own} instead{advice}"));
        }
    }
    warnings
}

/// A setting that a prefix leaves out has the value of its group.
fn prefix_scopes(
    group: Option<&String>,
    of_group: &Layer,
    prefixes: &[RawTable],
    machine: &Machine,
    scopes: &mut Vec<EffectiveSettings>,
    problems: &mut Vec<String>,
) {
    // A bad value of the group is reported once, by the group.
    let mut inherited = Vec::new();
    for raw in prefixes {
        let table = NamedTable::Prefix(group.cloned(), raw.name.clone());
        scope(Some(table.clone()), &raw.layer, machine, problems);
        let mut layer = of_group.clone();
        layer.extend(raw.layer.clone());
        scopes.push(scope(Some(table), &layer, machine, &mut inherited));
    }
}

/// For a value that cannot be read: a shell and `docker compose` remove the quotes of a value, but
/// `docker run --env-file` does not.
fn quotes_advice(origin: &SettingOrigin, text: &str) -> &'static str {
    match origin {
        SettingOrigin::Env(_) if text.contains(['"', '\'']) => {
            "; the variable has quotes, which `docker run --env-file` keeps: write its value without them"
        }
        _ => "",
    }
}

fn scope(table: Option<NamedTable>, layer: &Layer, machine: &Machine, problems: &mut Vec<String>) -> EffectiveSettings {
    let prefix = prefix(table.as_ref());
    let mut scope = EffectiveSettings { table, values: Vec::new() };
    for setting in all_settings().filter(|setting| scope.table.as_ref().is_none_or(|table| table.takes(setting))) {
        let (texts, origin) = match (layer.get(setting.name), setting.default) {
            (Some(raw), _) => (raw.texts.clone(), raw.origin.clone()),
            (None, Fallback::Is(text)) => (vec![text.to_string()], SettingOrigin::Default),
            (None, _) => (Vec::new(), SettingOrigin::Default),
        };
        let off = setting.optional && matches!(texts.as_slice(), [text] if text.is_empty() || is_off(text));
        let mut values = Vec::new();
        for text in texts.iter().filter(|_| !off) {
            match parse(setting, text, machine) {
                Ok(value) => values.push(value),
                Err(error) => {
                    let advice = quotes_advice(&origin, text);
                    problems.push(format!("{origin}: {prefix}{}: {error}{advice}", setting.name));
                }
            }
        }
        scope.values.push(EffectiveValue { setting, values, origin });
    }
    // A second pass: these look at what others came out as.
    for at in 0..scope.values.len() {
        let EffectiveValue { setting, origin, .. } = &scope.values[at];
        if matches!(setting.default, Fallback::Computed(_)) && *origin == SettingOrigin::Default {
            scope.values[at].values = computed(setting.name, &scope, machine).into_iter().collect();
        }
    }
    scope
}
