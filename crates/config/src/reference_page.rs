//! `larder config docs`: the reference in `docs/reference/configuration.md`.
use super::{
    settings_table::{Fallback, SettingSpec, ValueKind, sections},
    wrapped_text::wrapped,
};
use larder_units::{show_duration, show_size};
use std::{fmt::Write as _, time::Duration};

const INTRODUCTION: &str = "\
# Configuration reference

<!-- Made by `larder config docs`; do not edit. The table is in crates/config/src/settings_table/. -->

You can give every setting as a flag of `larder serve`, as an environment variable and in a TOML file (`--config FILE` or `LARDER_CONFIG`). A flag overrides a variable, a variable overrides the file, and the file overrides the default. Unknown names and impossible values stop the start (exit code 2) with the place and the nearest valid name.

- `larder config check` reads the settings like `larder serve` and reports the errors.
- `larder config print` shows the effective values and the origin of each.
- Sizes: a number of bytes, or with B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024).
- Durations: a whole number with ms, s, m, h or d.
- Addresses: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, `:8080` (all interfaces); port 0 takes a free port, which the ready line names.
- Addresses of listeners can be Unix sockets: `unix:/run/larder/redis.sock?mode=0660&group=app` ([security](../security.md#unix-sockets)).
- Settings with several values: repeat the flag, separate with commas in the variable, write an array in the file. Of any other flag given twice, the last one counts.
- `none` or `off` (or an empty text) switches an optional setting off.
- `SIGHUP` and `POST /v1/config/reload` read the file again. Settings marked below change at once, the others at the next start. `larder config diff` shows both.

## Groups

The top level of the file, the flags and the variables set the process and the group `default`. Every other group is a table. A setting that is not in the table has its default, not the top level's value:

```toml
source = \"redis://127.0.0.1:6379\"
ttl = \"10s\"

[groups.sessions]
source = \"redis://127.0.0.1:6379/1\"
max-memory = \"256MiB\"
ttl = \"1h\"
```

## Key prefixes

Settings of freshness can differ by key prefix. `[prefixes.\"PREFIX\"]` is a table of group `default`, `[groups.NAME.prefixes.\"PREFIX\"]` one of a named group. The longest prefix of a key counts. A setting that is not in its table has the group's value. Only the file can have prefixes:

```toml
ttl = \"1m\"

[prefixes.\"user:\"]
ttl = \"10s\"
stale-if-error = \"1h\"

[prefixes.\"user:session:\"]
mode = \"deny\"
```

## Listeners

`redis` at the top level listens for the Redis protocol. More listeners are tables, each with its own addresses and its own rules for its clients. A setting that is not in the table has the top level's value:

```toml
redis = \"0.0.0.0:6380\"
users-file = \"/etc/larder/users.acl\"
deny-commands = [\"@dangerous\"]

[listeners.operators]
redis = \"127.0.0.1:6381\"
deny-commands = []
forward-admin = true
```

## Variables of other programs

`LARDER_…` variables override these, and these override the file: `PROXY_HOST` (empty: all interfaces) and `PROXY_PORT` set `http`, `REDIS_HOST` and `REDIS_PORT` set `source`, `PROXY_MAX_KEYS` sets `max-keys`, `PROXY_TTL_MS` sets `ttl`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` set `otlp-resource-attributes`. If one of them (except OpenTelemetry's) has no effect because a `LARDER_…` variable says something else, Larder warns. Service variables that Kubernetes injects (`REDIS_PORT=tcp://…`, `LARDER_SERVICE_HOST`) are ignored.
";

/// The Markdown text.
pub fn reference_page() -> String {
    let mut out = INTRODUCTION.to_string();
    for (title, settings) in sections() {
        let _ = writeln!(out, "\n## {title}");
        for setting in settings {
            entry(setting, &mut out);
        }
    }
    wrapped(&out)
}

fn entry(setting: &SettingSpec, out: &mut String) {
    let SettingSpec { name, help, .. } = setting;
    let _ = writeln!(
        out,
        "\n### {name}\n\n{help}\n\n`--{name} {}` · `{}` · `{}`\n\n{}.",
        setting.kind.placeholder(),
        setting.env(),
        file_line(setting, setting.example),
        facts(setting)
    );
}

/// The line of a configuration file that gives a setting this value.
pub(super) fn file_line(setting: &SettingSpec, value: &str) -> String {
    let value = match setting.kind {
        ValueKind::Count { .. } | ValueKind::Switch => value.to_string(),
        _ if setting.many => format!("[\"{value}\"]"),
        _ => format!("\"{value}\""),
    };
    format!("{} = {value}", setting.name)
}

/// Default, range and places of a setting, in one line.
pub(super) fn facts(setting: &SettingSpec) -> String {
    let default = match setting.default {
        Fallback::Is(text) => format!("`{text}`"),
        Fallback::Off => "none".to_string(),
        Fallback::Computed(how) => how.to_string(),
    };
    let mut facts = vec![format!("Default: {default}")];
    facts.extend(range(setting.kind));
    if setting.optional {
        facts.push("may be `none`".to_string());
    }
    if setting.many {
        facts.push("may be repeated".to_string());
    }
    if setting.per_group {
        facts.push("also in `[groups.NAME]`".to_string());
    }
    if setting.per_prefix {
        facts.push("also in `[prefixes.\"PREFIX\"]`".to_string());
    }
    if setting.per_listener {
        facts.push("also in `[listeners.NAME]`".to_string());
    }
    if setting.live {
        facts.push("a reload changes it".to_string());
    }
    if !setting.also.is_empty() {
        facts.push(format!("also `{}`", setting.also.join("`, `")));
    }
    facts.join("; ")
}

fn range(kind: ValueKind) -> Option<String> {
    let millis = |n| show_duration(Duration::from_millis(n));
    match kind {
        ValueKind::Size { min, max } => Some(format!("{} to {}", show_size(min), show_size(max))),
        ValueKind::Memory { min } => Some(format!("at least {}", show_size(min))),
        ValueKind::Count { min, max } => Some(format!("{min} to {max}")),
        ValueKind::Percent { max } => Some(format!("0% to {max}%")),
        ValueKind::Duration { min, max } => Some(format!("{} to {}", millis(min), millis(max))),
        ValueKind::Choice(names) => Some(format!("one of `{}`", names.join("`, `"))),
        ValueKind::Form(form) => (!form.range.is_empty()).then(|| form.range.to_owned()),
        ValueKind::Path | ValueKind::Text | ValueKind::Secret | ValueKind::Switch => None,
    }
}
