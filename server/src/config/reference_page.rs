//! `larder config docs`: the reference in `docs/reference/configuration.md`.
use super::settings_table::{Fallback, SettingSection, SettingSpec, TABLE, ValueKind};
use larder_units::{show_duration, show_size};
use std::{fmt::Write as _, time::Duration};

const INTRODUCTION: &str = "\
# Configuration reference

<!-- Made by `larder config docs`; do not edit. The table is in server/src/config/settings_table.rs. -->

Every setting can be given as a flag of `larder serve`, as an environment variable and in a TOML file (`--config FILE` or
`LARDER_CONFIG`). A flag outweighs a variable, a variable outweighs the file, and the file outweighs the default.
Unknown names and impossible values stop the start (exit code 2) with the place and the nearest valid name.

- `larder config check` reads everything as `larder serve` would and says what is wrong.
- `larder config print` shows the effective values and where each of them comes from.
- Sizes: a number of bytes, or with B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024).
- Durations: a whole number with ms, s, m, h or d.
- Addresses: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, `:8080` (all interfaces); port 0 takes a free port, which the ready line names.
- Settings that take several values: repeat the flag, separate with commas in the variable, write an array in the file.
  Of any other flag given twice the last counts.
- `none` or `off` (or an empty text) switches an optional setting off.
- `SIGHUP` and `POST /v1/config/reload` read the file again. Settings of which it is said below change at once, the others at the next start; `larder config diff` shows both.

## Groups

The top level of the file, the flags and the variables set the process and the group `default`. Every other group is a table; what it does
not set has the setting's default, not the top level's value:

```toml
source = \"redis://127.0.0.1:6379\"
ttl = \"10s\"

[groups.sessions]
source = \"redis://127.0.0.1:6379/1\"
max-memory = \"256MiB\"
ttl = \"1h\"
```

## Key prefixes

Settings of freshness can differ by key prefix. `[prefixes.\"PREFIX\"]` is a table of group `default`, `[groups.NAME.prefixes.\"PREFIX\"]` one of a
named group. The longest prefix of a key counts. What its table does not set has the group's value. Prefixes stand only in the file:

```toml
ttl = \"1m\"

[prefixes.\"user:\"]
ttl = \"10s\"
stale-if-error = \"1h\"

[prefixes.\"user:session:\"]
mode = \"deny\"
```

## Listeners

`redis` at the top level listens for the Redis protocol. More listeners are tables, each with addresses of its own and rules of its own for what its clients
may do. What a table does not set is as at the top level:

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

Understood with less weight than `LARDER_…` and more than the file: `PROXY_HOST` (empty: all interfaces) and `PROXY_PORT` set `http`,
`REDIS_HOST` and `REDIS_PORT` set `source`, `PROXY_MAX_KEYS` sets `max-keys`, `PROXY_TTL_MS` sets `ttl`. Variables that Kubernetes makes for a
service (`REDIS_PORT=tcp://…`, `LARDER_SERVICE_HOST`) are ignored.
";

/// The Markdown text.
pub fn reference_page() -> String {
    let mut out = INTRODUCTION.to_string();
    for section in SettingSection::ALL {
        let _ = writeln!(out, "\n## {}", section.title());
        for setting in TABLE.iter().filter(|setting| setting.section == section) {
            entry(setting, &mut out);
        }
    }
    out
}

fn entry(setting: &SettingSpec, out: &mut String) {
    let SettingSpec { name, help, example, .. } = setting;
    let example = match setting.kind {
        ValueKind::Count { .. } | ValueKind::Switch => example.to_string(),
        _ if setting.many => format!("[\"{example}\"]"),
        _ => format!("\"{example}\""),
    };
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
    let _ = writeln!(
        out,
        "\n### {name}\n\n{help}\n\n`--{name} {}` · `{}` · `{name} = {example}`\n\n{}.",
        setting.placeholder(),
        setting.env(),
        facts.join("; ")
    );
}

fn range(kind: ValueKind) -> Option<String> {
    let millis = |n| show_duration(Duration::from_millis(n));
    match kind {
        ValueKind::Size { min, max } => Some(format!("{} to {}", show_size(min), show_size(max))),
        ValueKind::Memory { min } => Some(format!("at least {}", show_size(min))),
        ValueKind::Count { min, max } => Some(format!("{min} to {max}")),
        ValueKind::Percent { max } => Some(format!("0% to {max}%")),
        ValueKind::Duration { min, max } => Some(format!("{} to {}", millis(min), millis(max))),
        ValueKind::Share => Some("0.0001% to 100%".to_string()),
        ValueKind::LoadFactor => Some("1 to 100".to_string()),
        ValueKind::RefreshAhead => Some("`1%` to `99%`, or `xfetch`".to_string()),
        ValueKind::Choice(names) => Some(format!("one of `{}`", names.join("`, `"))),
        ValueKind::Rate
        | ValueKind::PrefixRate
        | ValueKind::CommandRate
        | ValueKind::Address
        | ValueKind::AddressRange
        | ValueKind::Source
        | ValueKind::Durability
        | ValueKind::Path
        | ValueKind::Prefix
        | ValueKind::RoutePrefix
        | ValueKind::Endpoint
        | ValueKind::Hostname
        | ValueKind::Peer
        | ValueKind::PeerEntry
        | ValueKind::Zone
        | ValueKind::Primary
        | ValueKind::ReplicationMode
        | ValueKind::Text
        | ValueKind::Secret
        | ValueKind::Header
        | ValueKind::HeaderName
        | ValueKind::Switch
        | ValueKind::Command => None,
    }
}
