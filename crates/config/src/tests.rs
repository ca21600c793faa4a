use super::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const MACHINE: Machine = Machine { memory: 4 << 30, cores: 7, ipv6: true };

fn env(vars: &[(&str, &str)]) -> Env {
    vars.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

/// Loads with these flags, variables and text of a file `larder.toml`. The addresses of tests may
/// be open to others.
fn try_load(args: &[&str], vars: &[(&str, &str)], toml: &str) -> Result<CheckedConfig, Vec<String>> {
    let is_open = |problems: &Vec<String>| problems.iter().all(|problem| problem.contains("is open to other machines"));
    match try_load_guarded(args, vars, toml) {
        Err(problems) if is_open(&problems) => {
            try_load_guarded(args, &[vars, &[("LARDER_INSECURE", "true")]].concat(), toml)
        }
        loaded => loaded,
    }
}
fn try_load_guarded(args: &[&str], vars: &[(&str, &str)], toml: &str) -> Result<CheckedConfig, Vec<String>> {
    let command = clap::Command::new("larder").no_binary_name(true).args(flag_args());
    let (_, flags) = flag_layer(&command.try_get_matches_from(args).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("larder.toml");
    std::fs::write(&path, toml).unwrap();
    let input = ConfigInput { flags, file: Some(path), env: env(vars), machine: MACHINE };
    // The folder's name is left out of messages, so that tests can name the rest.
    let folder = format!("{}/", dir.path().display());
    load_config(input).map_err(|error| error.0.iter().map(|line| line.replace(&folder, "")).collect())
}
fn loaded(args: &[&str], vars: &[(&str, &str)], toml: &str) -> CheckedConfig {
    try_load(args, vars, toml).unwrap()
}
fn problems(args: &[&str], vars: &[(&str, &str)], toml: &str) -> Vec<String> {
    try_load(args, vars, toml).unwrap_err()
}
fn flag(setting: &SettingSpec, text: &str) -> String {
    format!("--{}={text}", setting.name)
}
/// Flags that must stand beside a setting for it to be allowed.
fn companions(setting: &SettingSpec) -> Vec<String> {
    const PAIR: [&str; 2] = ["--tls-cert=a.crt", "--tls-key=a.key"];
    const NODE: [&str; 4] = ["--tls-cert=a.crt", "--tls-key=a.key", "--https=:1", "--tls-client-ca=b.crt"];
    let flags: &[&str] = match setting.name {
        "snapshot-interval" | "restore" => &["--snapshot-file=larder.snapshot"],
        "https" | "rediss" | "memcacheds" | "admin-tls" => &PAIR,
        "tls-client-auth" | "tls-client-user" => &["--tls-client-ca=b.crt"],
        "peer-tls-ca" => &NODE,
        "jwt-user-claim" => &["--jwt-jwks=k", "--jwt-issuer=i", "--jwt-audience=a", "--users-file=f"],
        "auth" | "mirror" => &["--source=redis://redis"],
        "otlp-headers" => &["--otlp-endpoint=http://collector:4318"],
        "peer-tls-name" => return [&NODE[..], &["--peer-tls-ca=a.crt"]].concat().into_iter().map(Into::into).collect(),
        "rows" | "depends-on" | "upsert" | "delete" => &["--source=postgres://app@db/shop", "--query=SELECT $1"],
        _ => &[],
    };
    flags.iter().map(|flag| (*flag).into()).collect()
}
/// Settings that this build refuses.
fn is_of_a_feature(setting: &SettingSpec) -> bool {
    !cfg!(feature = "otlp") && ["otlp-endpoint", "otlp-headers"].contains(&setting.name)
}
/// Settings of which one alone is a problem.
fn is_of_a_pair(setting: &SettingSpec) -> bool {
    if is_of_a_feature(setting) {
        return true;
    }
    // `http-group` names a group, which needs a file; a query needs a database, which needs a query.
    ["tls-cert", "tls-key", "jwt-jwks", "jwt-issuer", "jwt-audience", "http-group", "query"].contains(&setting.name)
}

#[test]
fn the_table_is_whole() {
    let names: BTreeSet<_> = all_settings().map(|setting| setting.name).collect();
    assert_eq!(names.len(), all_settings().count(), "names are unique");
    for setting in all_settings() {
        let name = setting.name;
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{name}");
        assert!(setting.help.ends_with('.') && setting.help.len() > 10, "{name}");
        parse_setting::parse(setting, setting.example, &MACHINE).expect(name);
        if let Fallback::Is(text) = setting.default {
            let value = parse_setting::parse(setting, text, &MACHINE).expect(name);
            assert_eq!(value.to_string(), text, "{name}: its default is written as it is shown");
        }
        let off = matches!(setting.default, Fallback::Off);
        assert!(!off || setting.optional, "{name}: off by default, so it must be possible to say so");
    }
}

#[test]
fn a_setting_that_is_gone_says_what_holds_now_wherever_it_stands() {
    for name in removed_settings::removed_names() {
        assert!(all_settings().all(|setting| setting.name != name), "{name}");
        let expected = |place: &str| format!("{place}{name} is no longer a setting: ");
        let variable = format!("LARDER_{}", name.replace('-', "_").to_uppercase());
        let group = format!("[groups.g]\nmax-memory = '2MiB'\n{name} = 'x'");
        for (args, vars, file, place) in [
            (&[&*format!("--{name}=x")][..], &[][..], "", format!("flag --{name}: ")),
            (&[&*format!("--{name}")], &[], "", format!("flag --{name}: ")),
            (&[], &[(&*variable, "x")], "", format!("env {variable}: ")),
            (&[], &[], &*format!("{name} = 1"), "larder.toml:1: ".to_owned()),
            (&[], &[], &group, "larder.toml:3: groups.g.".to_owned()),
        ] {
            let said = problems(args, vars, file);
            assert!(said.len() == 1 && said[0].starts_with(&expected(&place)), "{said:?}");
        }
    }
}

#[test]
fn every_setting_reaches_the_settings() {
    let plain = format!("{:?}", loaded(&[], &[], "").settings);
    for setting in all_settings().filter(|setting| !is_of_a_pair(setting)) {
        let mut args = companions(setting);
        let before = loaded(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[], "");
        args.push(flag(setting, setting.example));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let after = loaded(&args, &[], "");
        // Debug masks a secret, but shows that there is one.
        let (before, after) = (format!("{:?}", before.settings), format!("{:?}", after.settings));
        assert_ne!(before, after, "--{} changes nothing", setting.name);
        assert_ne!(plain, after);
    }
}

#[test]
fn flag_outweighs_variable_outweighs_file_outweighs_default() {
    for setting in all_settings().filter(|setting| !is_of_a_pair(setting)) {
        let SettingSpec { name, example, .. } = setting;
        let companion = companions(setting);
        let companion: Vec<&str> = companion.iter().map(String::as_str).collect();
        let variable = setting.env();
        let vars = [(variable.as_str(), *example)];
        let file = match setting.kind {
            ValueKind::Count { .. } => format!("\n{name} = {example}"),
            _ => format!("\n{name} = \"{example}\""),
        };
        let typed = flag(setting, example);
        let with_flag: Vec<&str> = companion.iter().copied().chain([typed.as_str()]).collect();
        let origin = |args: &[&str], vars: &[(&str, &str)], file: &str| {
            let config = loaded(args, vars, file);
            let effective = config.scopes[0].values.iter().find(|e| e.setting.name == *name).unwrap().clone();
            if args != companion || !vars.is_empty() || !file.is_empty() {
                let shown: Vec<String> = effective.values.iter().map(SettingValue::to_string).collect();
                let parsed = parse_setting::parse(setting, example, &MACHINE).unwrap();
                assert_eq!(shown, [parsed.to_string()], "{name}");
            }
            effective.origin.to_string().rsplit('/').next().unwrap().to_string()
        };
        assert_eq!(origin(&companion, &[], ""), "default");
        assert_eq!(origin(&companion, &[], &file), "larder.toml:2");
        assert_eq!(origin(&companion, &vars, &file), format!("env {variable}"));
        assert_eq!(origin(&with_flag, &vars, &file), format!("flag --{name}"));
    }
}

#[test]
fn tokens_need_an_issuer_an_audience_and_users() {
    const ALL: [&str; 4] = ["--jwt-jwks=keys.json", "--jwt-issuer=i", "--jwt-audience=a,b", "--users-file=f"];
    let settings = loaded(&ALL, &[], "").settings.jwt.unwrap();
    assert_eq!(settings.audiences, ["a", "b"]);
    assert_eq!((settings.issuer.as_str(), settings.user_claim.as_str()), ("i", "sub"));
    for (left_out, argument) in ALL.iter().enumerate().skip(1) {
        let some: Vec<&str> = ALL.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, arg)| *arg).collect();
        let name = argument.trim_start_matches("--").split('=').next().unwrap();
        assert!(problems(&some, &[], "")[0].contains(&format!("jwt-jwks: {name} must be set")), "{some:?}");
    }
    for alone in ["--jwt-issuer=i", "--jwt-audience=a", "--jwt-user-claim=c"] {
        assert!(problems(&[alone], &[], "")[0].contains("has no meaning without jwt-jwks"), "{alone}");
    }
    let passthrough = [&ALL[..], &["--auth=passthrough", "--source=redis://r"]].concat();
    assert!(problems(&passthrough, &[], "")[0].contains("users-file has no meaning"));
}

#[test]
fn secrets_come_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    let file = path.display().to_string();
    for (content, expected) in
        [("hunter 2", "hunter 2"), ("hunter 2\n", "hunter 2"), ("hunter 2\r\n", "hunter 2"), ("\u{e9} ", "\u{e9} ")]
    {
        std::fs::write(&path, content).unwrap();
        let config = loaded(&[&format!("--password=@{file}"), &format!("--peer-secret=@{file}")], &[], "");
        assert_eq!(config.settings.password.as_deref(), Some(expected), "{content:?}");
        assert_eq!(config.settings.peers.secret.as_deref(), Some(expected), "{content:?}");
        let printed = print_config(&config);
        assert!(printed.contains("# password = \"***\"") && !printed.contains(expected), "{printed}");
        let config = loaded(&[], &[("LARDER_REPLICATION_SECRET", format!("@{file}").as_str())], "");
        assert_eq!(config.settings.replication.secret.as_deref(), Some(expected), "{content:?}");
    }
    // With a password from a file, other machines are asked who they are.
    assert!(try_load_guarded(&["--http=:1", &format!("--password=@{file}")], &[], "redis = \"off\"").is_ok());
    let told = |args: &[&str]| problems(args, &[], "").join("; ");
    let setting = format!("--password=@{file}");
    for (content, why) in [
        (&b""[..], "is empty"),
        (b"\n", "is empty"),
        (b"a\nb\n", "more than one line"),
        (b"\xff", "not UTF-8"),
        (&[b'x'; 70_000], "longer than 64 KiB"),
    ] {
        std::fs::write(&path, content).unwrap();
        let told = told(&[&setting]);
        assert!(told.contains(why), "{told}");
    }
    std::fs::remove_file(&path).unwrap();
    let told = told(&[&setting]);
    assert!(told.contains("password: the file behind `@` cannot be read: No such file") && !told.contains(&file));
}

#[test]
fn defaults() {
    let Settings { groups, .. } = loaded(&[], &[], "").settings;
    let s = loaded(&[], &[], "").settings;
    assert_eq!(s.http, ["127.0.0.1:8080".parse::<std::net::SocketAddr>().unwrap().into()]);
    assert_eq!(s.redis, ["127.0.0.1:6380".parse::<std::net::SocketAddr>().unwrap().into()]);
    assert_eq!(s.admin, Some("127.0.0.1:8081".parse::<std::net::SocketAddr>().unwrap().into()));
    assert_eq!((s.threads, s.password.is_none(), s.data_dir.is_none()), (7, true, true));
    assert_eq!((s.max_key, s.max_value, s.max_body), (64 << 10, 512 << 20, 512 << 20));
    assert_eq!((s.idle_timeout, s.groups[0].freshness.source_timeout), (None, Duration::from_secs(1)));
    assert_eq!((s.throttle_client, s.throttle_total, s.throttle_admin), (None, None, None));
    assert_eq!((s.log_level, s.log_format), (LogLevel::Info, LogFormat::Text));
    assert_eq!(groups.len(), 1);
    let group = &groups[0];
    assert_eq!((group.name.as_str(), group.source.clone()), ("default", SourceUrl::None));
    assert_eq!((group.max_memory, group.max_keys, group.freshness.ttl), (1 << 30, None, None));
    assert_eq!((group.ttl_jitter, group.freshness.negative_ttl), (0, None));
}

#[test]
fn computed_defaults_follow_what_is_set() {
    assert_eq!(loaded(&["--max-value", "1MiB"], &[], "").settings.max_body, 1 << 20);
    let s = loaded(&["--throttle", "100/s", "--throttle-total=3/s"], &[], "").settings;
    let rate = |requests, seconds| Some(Rate { requests, per: Duration::from_secs(seconds) });
    assert_eq!(s.throttle_client, rate(100, 1));
    assert_eq!(s.throttle_admin, rate(10, 1), "tighter than the rest");
    assert_eq!(s.throttle_total, rate(3, 1));
    assert_eq!(loaded(&["--throttle=7/m"], &[], "").settings.throttle_admin, rate(1, 60));
    let s = loaded(&["--throttle=100/m", "--throttle-admin=off"], &[], "").settings;
    assert_eq!(s.throttle_client, rate(100, 60));
    assert_eq!(s.throttle_admin, None);
    let memory = |text| loaded(&["--max-memory", text], &[], "").settings.groups[0].max_memory;
    assert_eq!(memory("25%"), 1 << 30);
    assert_eq!(memory("64MiB"), 64 << 20);
    let tiny = Machine { memory: 3 << 20, ..MACHINE };
    let config = load_config(ConfigInput { flags: Layer::new(), file: None, env: Env::new(), machine: tiny }).unwrap();
    assert_eq!(config.settings.groups[0].max_memory, 1 << 20, "never under the least");
}

#[test]
fn lists_and_off() {
    let s =
        loaded(&["--http", ":1", "--http=127.0.0.1:0,127.0.0.1:0", "--redis=off", "--admin", "none"], &[], "").settings;
    assert_eq!(s.http.len(), 3, "port 0 may stand twice");
    assert_eq!((s.redis.len(), s.admin), (0, None));
    assert_eq!(loaded(&["--redis", ""], &[], "").settings.redis.len(), 0);
    assert_eq!(loaded(&[], &[("LARDER_REDIS", "")], "").settings.redis.len(), 0);
    assert_eq!(loaded(&[], &[], "redis = []").settings.redis.len(), 0);
    assert_eq!(loaded(&[], &[("LARDER_TTL", "")], "ttl = '1s'").settings.groups[0].freshness.ttl, None);
    assert_eq!(loaded(&["--ttl", "OFF"], &[], "ttl = '1s'").settings.groups[0].freshness.ttl, None);
}

#[test]
fn of_a_flag_given_twice_the_last_counts() {
    let settings = loaded(&["--threads=2", "--ttl=1s", "--threads=5"], &[], "").settings;
    assert_eq!((settings.threads, settings.groups[0].freshness.ttl), (5, Some(Duration::from_secs(1))));
}

#[test]
fn groups() {
    let toml = "ttl = '1s'\n[groups.b]\nmax-memory = '25%'\nsource = 'redis://h/2'\nmax-keys = 5\n[groups.a]\nmax-memory = 2097152\nttl = '2s'\nttl-jitter = 10\nnegative-ttl = '3s'\n";
    let groups = loaded(&["--ttl", "9s"], &[], toml).settings.groups;
    let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["default", "b", "a"]);
    assert_eq!(groups[0].freshness.ttl, Some(Duration::from_secs(9)));
    assert_eq!((groups[1].freshness.ttl, groups[1].max_memory, groups[1].max_keys), (None, 1 << 30, Some(5)));
    assert!(matches!(&groups[1].source, SourceUrl::Redis(url) if url.database == 2));
    assert_eq!((groups[2].max_memory, groups[2].ttl_jitter), (2 << 20, 10));
    assert_eq!(groups[2].freshness.negative_ttl, Some(Duration::from_secs(3)));
}

#[test]
fn prefixes_have_what_their_group_has_unless_they_say_otherwise() {
    let toml = "ttl = '9s'\nmode = 'observe'\nstale-if-error = 0\n\
        [prefixes.\"user:\"]\nttl = '1s'\nstale-if-error = '1h'\n\
        [prefixes.'a.b']\nmode = 'deny'\nttl = 'none'\nrefresh-ahead = '20%'\n\
        [groups.g]\nmax-memory = '2MiB'\nnegative-ttl = '3s'\n\
        [groups.g.prefixes.\"user:\"]\nrefresh-ahead = 'xfetch'\nsoft-timeout = 'off'\nmax-stale = '5s'\n";
    let config = loaded(&["--ttl=2s"], &[], toml);
    let [default, g] = &config.settings.groups[..] else { panic!("{:?}", config.settings.groups) };
    let [user, dotted] = &default.prefixes[..] else { panic!("{:?}", default.prefixes) };
    let seconds = |n| Some(Duration::from_secs(n));
    assert_eq!((default.mode, default.freshness.stale_if_error), (TierMode::Observe, Duration::ZERO));
    assert_eq!((user.prefix.as_str(), user.mode), ("user:", TierMode::Observe));
    assert_eq!((user.freshness.ttl, user.freshness.stale_if_error), (seconds(1), Duration::from_secs(3600)));
    assert_eq!(user.freshness.soft_timeout, Some(Duration::from_millis(100)));
    assert_eq!((dotted.prefix.as_str(), dotted.mode), ("a.b", TierMode::Deny));
    assert_eq!((dotted.freshness.ttl, dotted.freshness.refresh_ahead), (None, Some(RefreshAhead::Share(20))));
    let [user] = &g.prefixes[..] else { panic!("{:?}", g.prefixes) };
    let of = &user.freshness;
    assert_eq!((of.ttl, of.negative_ttl, of.max_stale, of.soft_timeout), (None, seconds(3), seconds(5), None));
    assert_eq!(of.refresh_ahead, Some(RefreshAhead::XFetch));
    assert_eq!((of.stale_if_error, user.mode), (Duration::from_secs(30), TierMode::Cache), "not the top level's");
    let printed = print_config(&config);
    assert!(
        printed.contains("\n[prefixes.\"a.b\"]\n") && printed.contains("\n[groups.g.prefixes.\"user:\"]\n"),
        "{printed}"
    );
    assert_eq!(loaded(&[], &[], &printed).settings, config.settings);
    assert_eq!(
        problems(
            &[],
            &[],
            "ttl = 'x'\n[prefixes.a]\nmode = 'denny'\nrefresh-ahead = '100%'\nsoft-timeout = 0\n[prefixes.b]\n"
        ),
        [
            "larder.toml:1: ttl: `x` is not a duration: write 250ms, 10s, 5m, 1h or 1d",
            "larder.toml:5: prefixes.\"a\".soft-timeout: 0ms is too small: the least is 1ms, or `none`",
            "larder.toml:4: prefixes.\"a\".refresh-ahead: `100%` is not a share of the lifetime: write 1% to 99%, or xfetch",
            "larder.toml:3: prefixes.\"a\".mode: `denny` is not one of cache, observe, deny, did you mean deny?",
        ]
    );
}

#[test]
fn freshness_settings_that_cannot_work_are_warned_of() {
    let warnings = |toml: &str| loaded(&[], &[], toml).warnings;
    assert_eq!(warnings("[prefixes.a]\nttl = '1s'"), [""; 0], "the defaults agree");
    assert_eq!(
        warnings("max-stale = '5s'\n[prefixes.a]\nttl = '1s'\n[prefixes.b]\nmax-stale = '1m'\nstale-if-error = '2m'"),
        [
            "group default: max-stale (5s) is shorter than stale-if-error (30s), which it shortens to 5s",
            "prefix `b` of group default: max-stale (1m) is shorter than stale-if-error (2m), which it shortens to 1m",
        ]
    );
    assert_eq!(
        warnings(
            "source = 'demo:'\nttl = '1m'\nsource-timeout = '50ms'\nsoft-timeout = '90ms'\n[prefixes.a]\nsoft-timeout = '40ms'\n[prefixes.b]\nsource-timeout = '20ms'\n[prefixes.c]\nsource-timeout = '1s'"
        ),
        [
            "group default: soft-timeout (90ms) is not shorter than source-timeout (50ms), so it has no effect",
            "prefix `b` of group default: soft-timeout (90ms) is not shorter than source-timeout (20ms), so it has no effect",
        ]
    );
    assert_eq!(warnings("source = 'demo:'\nttl = '1m'\nsource-timeout = '50ms'"), [""; 0], "soft-timeout is not set");
    assert_eq!(
        warnings("source = 'redis://h'\n[prefixes.a]\nsource-timeout = '2s'"),
        [
            "prefix `a` of group default: source-timeout (2s) has no effect: fetches from this source have that of the group (1s)"
        ]
    );
    assert_eq!(
        warnings("[prefixes.a]\nstale-while-revalidate = '1s'"),
        ["prefix `a` of group default: stale-while-revalidate means nothing without a ttl: no copy gets out of date"]
    );
    assert_eq!(warnings("source = 'redis://h'\nstale-while-revalidate = '1s'"), [""; 0], "Redis says when keys expire");
}

#[test]
fn listeners_have_what_the_top_level_has_unless_they_say_otherwise() {
    let toml = "deny-commands = ['@dangerous', 'GETDEL']\nforward-admin = true\n\
        [listeners.b]\nredis = ['127.0.0.1:7001', '127.0.0.1:7002']\nforward-admin = false\n\
        [listeners.a]\nredis = '127.0.0.1:7003'\ndeny-commands = []\nallow-commands = '@read'\n";
    let settings = loaded(&["--deny-commands", "@write,config|set"], &[], toml).settings;
    let list = |entries: &[&str]| CommandList::of(entries.iter().copied());
    let top = &settings.access;
    assert_eq!((&top.deny_commands, top.forward_admin), (&list(&["@write", "config|set"]), true));
    let [b, a] = &settings.listeners[..] else { panic!("{:?}", settings.listeners) };
    assert_eq!((b.name.as_str(), b.redis.len(), b.access.forward_admin), ("b", 2, false));
    assert_eq!(b.access.deny_commands, top.deny_commands);
    assert_eq!((a.name.as_str(), a.redis.len(), a.access.forward_admin), ("a", 1, true));
    assert_eq!((&a.access.deny_commands, &a.access.allow_commands), (&list(&[]), &list(&["@read"])));
    for (toml, expected) in [
        (
            "[listeners.a]",
            "larder.toml:1: listeners.a.redis: must be set, or rediss: each listener has an address of its own",
        ),
        (
            "[listeners.a]\nredis = ':1'\nhttp = ':2'",
            "larder.toml:3: listeners.a.http: http is not a listener's setting; move it above the first [listeners.…]",
        ),
        (
            "[listeners.a]\nredis = '127.0.0.1:6380'",
            "larder.toml:2: listeners.a.redis: 127.0.0.1:6380 is already taken by redis",
        ),
        (
            "[listeners.a]\nredis = ':1'\ndeny-command = 'x'",
            "larder.toml:3: listeners.a.deny-command: no such setting, did you mean deny-commands?",
        ),
        ("listeners = 1", "larder.toml:1: listeners: write tables, [listeners.NAME]"),
        ("forward-admin = 'maybe'", "larder.toml:1: forward-admin: `maybe` is not true or false"),
    ] {
        assert_eq!(problems(&[], &[], toml), [expected], "{toml}");
    }
}

#[test]
fn a_switch_is_on_where_its_flag_stands_alone() {
    let on = |args: &[&str]| loaded(args, &[], "").settings.access.forward_admin;
    assert!(
        on(&["--forward-admin"]) && on(&["--forward-admin=yes"]) && on(&["--forward-admin", "true", "--threads=1"])
    );
    assert!(!on(&[]) && !on(&["--forward-admin=off"]) && !on(&["--forward-admin", "--forward-admin=false"]));
    assert!(loaded(&[], &[("LARDER_FORWARD_ADMIN", "1")], "forward-admin = false").settings.access.forward_admin);
}

#[test]
fn the_variables_of_other_proxies_stand_between_ours_and_the_file() {
    let vars = [("PROXY_PORT", "9000"), ("REDIS_HOST", "r"), ("PROXY_TTL_MS", "1500"), ("PROXY_MAX_KEYS", "7")];
    let toml = "http = ':1'\nttl = '1h'\nmax-keys = 1";
    let s = loaded(&[], &vars, toml).settings;
    assert_eq!(s.http[0].to_string(), "127.0.0.1:9000");
    assert_eq!(s.groups[0].source.to_string(), "redis://r:6379/0");
    assert_eq!((s.groups[0].freshness.ttl, s.groups[0].max_keys), (Some(Duration::from_millis(1500)), Some(7)));
    let own = [&vars[..], &[("LARDER_TTL", "2s"), ("LARDER_SOURCE", "none:")]].concat();
    let s = loaded(&[], &own, toml).settings;
    assert_eq!((s.groups[0].freshness.ttl, &s.groups[0].source), (Some(Duration::from_secs(2)), &SourceUrl::None));
    assert_eq!(loaded(&[], &[("PROXY_HOST", ""), ("PROXY_PORT", "1")], "").settings.http[0].to_string(), "[::]:1");
}

#[test]
fn impossible_values_name_their_place() {
    for (args, expected) in [
        (&["--max-memory=1000KiB"][..], "flag --max-memory: max-memory: 1000KiB is too small: the least is 1MiB"),
        (&["--max-memory=101%"], "flag --max-memory: max-memory: 101% is too large: the most is 100%"),
        (
            &["--max-memory=lots"],
            "flag --max-memory: max-memory: `lots` is not a size: write 64MiB, 1GB, 512kB or a number of bytes",
        ),
        (&["--max-memory=off"], "flag --max-memory: max-memory: cannot be `off`"),
        (&["--max-memory="], "flag --max-memory: max-memory: is empty: leave it out for the default"),
        (&["--max-keys=0"], "flag --max-keys: max-keys: 0 is too small: the least is 1"),
        (&["--max-keys=1.5"], "flag --max-keys: max-keys: `1.5` is not a whole number"),
        (&["--ttl=10"], "flag --ttl: ttl: `10` has no unit: write 10s or 10ms"),
        (&["--ttl=0ms"], "flag --ttl: ttl: 0ms is too small: the least is 1ms, or `none`"),
        (&["--ttl-jitter=51%"], "flag --ttl-jitter: ttl-jitter: 51% is too large: the most is 50%"),
        (&["--throttle=100"], "flag --throttle: throttle: `100` is not a rate: write 1000/s"),
        (&["--throttle=0/s"], "flag --throttle: throttle: 0/s is too small: the least is 1/s"),
        (&["--max-value=513MiB"], "flag --max-value: max-value: 513MiB is too large: the most is 512MiB"),
        (
            &["--log-level=inf"],
            "flag --log-level: log-level: `inf` is not one of off, error, warn, info, debug, trace, did you mean info?",
        ),
        (
            &["--source=redsi://h"],
            "flag --source: source: unknown source redsi:, did you mean redis:? (sources are none:, table:FILE, disk:DIR, redis://HOST:PORT/DB, rediss://HOST:PORT/DB, unix:///PATH?db=N, redis+cluster://HOST:PORT,…, redis+sentinel://HOST:PORT,…/SERVICE/DB, http://HOST:PORT/PATH/{key}, https://HOST:PORT/PATH/{key}, postgres://USER@HOST/DATABASE?table=TABLE, cassandra://HOST,…/KEYSPACE, demo:)",
        ),
        (&["--http=off", "--redis=off"], "flag --http: http: both http and redis are off: there is nothing to serve"),
        (
            &["--peers=a:1,dns:b:1"],
            "flag --peers: peers: `a:1` and `dns:b:1` cannot be mixed: name all nodes by addresses, or all in one other way",
        ),
        (&["--peers=dns:"], "flag --peers: peers: `dns:` is not a name of peers: write dns:host:port"),
        (
            &["--peer-self=dns:a:1"],
            "flag --peer-self: peer-self: `dns:a:1` is not a peer: write host:port or http://host:port",
        ),
        (&["--mirror=disk:/a"], "flag --mirror: mirror: source none: has no mirror: stores and Redis servers have"),
        (&["--source=disk:/a", "--mirror=disk:/a"], "flag --mirror: mirror: is the source itself"),
        (
            &["--source=disk:/a", "--mirror=http://a/{key}"],
            "flag --mirror: mirror: http://a/{key} cannot be a mirror: stores and Redis servers can",
        ),
        (&["--redis=127.0.0.1:8080"], "flag --redis: redis: 127.0.0.1:8080 is already taken by http"),
        (
            &["--http=off,127.0.0.1:1"],
            "flag --http: http: `off` is not an address: write 127.0.0.1:8080, [::1]:8080, localhost:8080, or :8080 for all interfaces, or unix:/PATH",
        ),
    ] {
        assert_eq!(problems(args, &[], ""), [expected], "{args:?}");
    }
    assert_eq!(loaded(&["--throttle=off"], &[], "throttle = '5/s'").settings.throttle_client, None);
}

#[test]
fn all_problems_are_reported_at_once() {
    assert_eq!(
        problems(
            &["--threads=0"],
            &[("LARDER_TLL", "1s"), ("LARDER_GRACE", "soon"), ("PROXY_MAX_KEYS", "many")],
            "max-memry = 1\nthrottle = 'x'\n\n[groups.a]\nttl = '1w'"
        ),
        [
            "env LARDER_TLL: no such setting, did you mean LARDER_TTL?",
            "larder.toml:1: max-memry: no such setting, did you mean max-memory?",
            "env PROXY_MAX_KEYS: max-keys: `many` is not a whole number",
            "larder.toml:2: throttle: `x` is not a rate: write 1000/s",
            "flag --threads: threads: 0 is too small: the least is 1",
            "env LARDER_GRACE: grace: `soon` is not a duration: write 250ms, 10s, 5m, 1h or 1d",
            "larder.toml:4: groups.a.max-memory: must be set: each named group has a bound of its own",
            "larder.toml:5: groups.a.ttl: `1w` is not a duration: write 250ms, 10s, 5m, 1h or 1d",
        ]
    );
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem() {
    let vars = env(&[("LARDER_CONFIG", "/nowhere/l.toml")]);
    let input = ConfigInput { flags: Layer::new(), file: None, env: vars, machine: MACHINE };
    let error = load_config(input).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/l.toml: cannot be read (LARDER_CONFIG): No such file"), "{error}");
}

#[test]
fn more_memory_than_there_is_warns() {
    assert_eq!(loaded(&[], &[], "").warnings, [""; 0]);
    let config = loaded(&["--max-memory=3GiB"], &[], "[groups.a]\nmax-memory = '2GiB'");
    assert_eq!(
        config.warnings,
        ["max-memory is 5GiB in all, more than the 4GiB that this process may use: the kernel may kill it"]
    );
}

#[test]
fn peers_with_users_need_a_secret() {
    let warnings = |args: &[&str]| loaded(args, &[], "").warnings;
    let peers = ["--peers=127.0.0.1:1,127.0.0.1:2", "--peer-self=127.0.0.1:1"];
    let with = |more: &[&'static str]| warnings(&[&peers[..], more].concat());
    let said = "peers have no peer-secret and no peer-tls-ca: with password or users-file they refuse each other";
    assert!(with(&["--password=x"]).iter().any(|warning| warning == said));
    assert!(with(&["--users-file=f"]).iter().any(|warning| warning == said));
    assert!(!with(&["--password=x", "--peer-secret=y"]).iter().any(|warning| warning == said));
    assert!(!with(&[]).iter().any(|warning| warning == said));
}

#[test]
fn listeners_for_other_machines_need_users() {
    for (args, refused) in [
        (&["--http=127.0.0.1:1,[::1]:2", "--redis=127.9.9.9:1"][..], &[][..]),
        (&["--http=:1"], &["http"]),
        (&["--http=192.0.2.1:1", "--redis=[2001:db8::1]:1", "--admin=:2"], &["http", "redis", "admin"]),
        (&["--http=:1", "--insecure"], &[]),
        (&["--http=:1", "--password=x"], &[]),
        (&["--http=:1", "--users-file=x"], &[]),
        (&["--https=:1", "--tls-cert=a", "--tls-key=a"], &["https"]),
        (&["--https=:1", "--tls-cert=a", "--tls-key=a", "--tls-client-ca=c"], &[]),
        (&["--https=:1", "--tls-cert=a", "--tls-key=a", "--tls-client-ca=c", "--tls-client-auth=optional"], &["https"]),
        (&["--admin=:1", "--admin-tls", "--tls-cert=a", "--tls-key=a", "--tls-client-ca=c"], &[]),
    ] {
        let problems = try_load_guarded(args, &[], "").err().unwrap_or_default();
        assert_eq!(problems.len(), refused.len(), "{args:?}: {problems:?}");
        for (problem, name) in problems.iter().zip(refused) {
            assert!(
                problem.contains(&format!(": {name}: ")) && problem.contains("set password or users-file"),
                "{problem}"
            );
        }
    }
    // Those who come from a proxy of that kind get what they had.
    assert!(try_load_guarded(&[], &[("PROXY_HOST", ""), ("PROXY_PORT", "1")], "").is_ok());
}

#[test]
fn an_http_source_without_ttl_is_warned_of() {
    let warnings = |args: &[&str]| loaded(args, &[], "").warnings;
    let source = "--source=http://h/{key}";
    let said = "group default has no ttl: what its HTTP source sends without Cache-Control or Expires is never renewed";
    assert_eq!(warnings(&[source]), [said]);
    assert_eq!(warnings(&[source, "--ttl=1m"]), [""; 0]);
}

#[test]
fn coherence_and_its_prefixes() {
    let group = |args: &[&str]| loaded(args, &[], "").settings.groups[0].clone();
    assert_eq!(group(&[]).coherence, Coherence::Coherent);
    assert_eq!(group(&["--coherence=off"]).coherence, Coherence::Off, "a name, not the absence of a value");
    assert_eq!(group(&["--tracking-prefixes=a:,b:", "--tracking-prefixes=c:"]).tracking_prefixes, ["a:", "b:", "c:"]);
    for overlapping in ["ab,a", "a,ab", "a,a"] {
        let problems = problems(&[&format!("--tracking-prefixes={overlapping}")], &[], "");
        assert!(problems[0].ends_with(": one begins with the other"), "{problems:?}");
    }
    let config = loaded(&["--tracking-prefixes=a:", "--coherence=ttl"], &[], "");
    assert_eq!(config.warnings, ["tracking-prefixes of group default mean nothing unless coherence is coherent"]);
}

#[test]
fn routes_of_redis_and_of_items_do_not_overlap() {
    for (items, redis, overlaps) in [
        ("/a", "/a", true),
        ("/a/b", "/a", true),
        ("/a", "/a/b", true),
        ("/a", "/a/", true),
        ("/ab", "/a", false),
        ("/a", "/ab", false),
        ("/a/b", "/a/c", false),
        ("/a", "/", false),
        ("/a", "off", false),
        ("off", "/a", false),
    ] {
        let said = try_load(&[&format!("--item-prefix={items}"), &format!("--redis-http-prefix={redis}")], &[], "");
        let problems = said.err().unwrap_or_default();
        assert_eq!(problems.len(), usize::from(overlaps), "{items} {redis}: {problems:?}");
        assert!(problems.iter().all(|problem| problem.contains("redis-http-prefix: paths below ")), "{problems:?}");
    }
}

#[test]
fn print_says_where_each_value_comes_from() {
    let printed = print_config(&loaded(&["--ttl=10s"], &[("LARDER_MAX_KEYS", "5")], "http = [':1', ':2']"));
    let line = |name: &str| {
        let line = printed.lines().find(|line| line.starts_with(&format!("{name} ="))).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("ttl"), "ttl = \"10s\" # flag --ttl");
    assert_eq!(line("max-keys"), "max-keys = 5 # env LARDER_MAX_KEYS");
    assert!(line("http").starts_with("http = [\"[::]:1\", \"[::]:2\"] # /"));
    assert!(line("http").ends_with("/larder.toml:1"));
    assert_eq!(line("redis"), "redis = \"127.0.0.1:6380\" # default");
    assert_eq!(line("max-memory"), "max-memory = \"1GiB\" # default: a quarter of the memory that the process may use");
    assert_eq!(line("idle-timeout"), "idle-timeout = \"none\" # default");
}

#[test]
fn what_is_printed_reads_back_as_the_same_settings() {
    // These do not go together with other examples.
    let is_shown = |s: &&SettingSpec| {
        !matches!(s.kind, ValueKind::Secret)
            && !["peer-zone", "auth", "http-group", "query", "rows", "depends-on", "upsert", "delete"].contains(&s.name)
            && !is_of_a_feature(s)
    };
    let everything: Vec<String> = all_settings().filter(is_shown).map(|s| flag(s, s.example)).collect();
    let everything: Vec<&str> = everything.iter().map(String::as_str).collect();
    let query = ["--source=postgres://app@db/shop", "--query=SELECT $1", "--rows=all", "--depends-on=users.id"];
    for args in [&[][..], &["--http=off", "--throttle=5/s"], &["--peers=127.0.0.1:8080;zone=a"], &query, &everything] {
        let config = loaded(args, &[], "[groups.\"a.b\"]\nmax-memory = '2MiB'\nttl = '1s'");
        let again = loaded(&[], &[], &print_config(&config));
        assert_eq!(config.settings, again.settings);
    }
}

#[test]
fn a_collector_needs_the_feature_and_a_url() {
    let problem = |args: &[&str]| problems(args, &[], "").join("; ");
    assert!(problem(&["--otlp-headers=a: b"]).contains("no meaning without otlp-endpoint"));
    let wrong = problem(&["--otlp-endpoint=http://a:1", "--otlp-headers=Content-Type: b"]);
    assert!(wrong.contains("Larder itself decides about `content-type`"), "{wrong}");
    let wrong = problem(&["--otlp-endpoint=localhost:4318"]);
    match cfg!(feature = "otlp") {
        true => assert!(wrong.contains("write http://HOST:4318"), "{wrong}"),
        false => assert!(wrong.contains("lacks the feature `otlp`"), "{wrong}"),
    }
}

#[test]
fn secrets_are_not_printed() {
    let config = loaded(&["--password=hunter2", "--source=redis://u:hunter2@h"], &[], "");
    let printed = print_config(&config);
    assert!(!printed.contains("hunter2") && !format!("{config:?}").contains("hunter2"), "{printed}");
    assert!(printed.contains("# password = \"***\""), "{printed}");
    assert!(printed.contains("# source = \"redis://u:***@h:6379/0\""), "{printed}");
    assert_eq!(config.settings.password.as_deref(), Some("hunter2"));
}

#[test]
fn the_reference_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == reference_page(),
        "docs/reference/configuration.md is stale: run `larder config docs > docs/reference/configuration.md`"
    );
}

#[test]
fn the_help_names_every_setting() {
    let mut command = clap::Command::new("larder").args(flag_args());
    let help = command.render_long_help().to_string();
    let mut seen = BTreeMap::new();
    for setting in all_settings() {
        let value = match setting.kind {
            kind if kind.takes_bool() => format!("[<{}>]", setting.kind.placeholder()),
            _ => format!("<{}>", setting.kind.placeholder()),
        };
        let flag = format!("--{} {value}", setting.name);
        assert!(help.contains(&flag), "{flag} is missing from\n{help}");
        *seen.entry(setting.section.title()).or_insert(0) += 1;
    }
    assert!(seen.keys().all(|title| help.contains(&format!("\n{title}:"))), "{help}");
}

#[test]
fn quotes_of_an_env_file_are_named() {
    for (name, text) in [
        ("LARDER_MAX_MEMORY", "\"64MiB\""),
        ("LARDER_TTL", "'10s'"),
        ("PROXY_TTL_MS", "\"10000\""),
        ("PROXY_MAX_KEYS", "\"5\""),
    ] {
        let said = problems(&[], &[(name, text)], "").join("\n");
        assert!(said.contains(&format!("env {name}: ")) && said.contains("`docker run --env-file` keeps"), "{said}");
    }
    let said = problems(&["--max-memory=\"64MiB\""], &[("LARDER_TTL", "10 s s")], "").join("\n");
    assert!(!said.contains("docker"), "{said}");
}

#[test]
fn variables_that_say_what_nobody_means_are_named() {
    let warnings = |args: &[&str], env: &[(&str, &str)]| loaded(args, env, "").warnings.join("\n");
    for (name, text) in [("REDIS_HOST", "'redis'"), ("LARDER_PASSWORD", "\"hunter2\""), ("LARDER_USERS_FILE", " 'a' ")]
    {
        let said = warnings(&[], &[(name, text)]);
        assert!(said.contains(&format!("env {name}: the quotes around it")) && !said.contains("hunter2"), "{said}");
    }
    for (name, text) in [("REDIS_HOST", "redis"), ("LARDER_PASSWORD", "'hunter2\""), ("LARDER_PASSWORD", "'")] {
        assert!(!warnings(&[], &[(name, text)]).contains("quotes"), "{name}={text}");
    }
    assert!(!warnings(&["--source=demo:"], &[("REDIS_HOST", "'redis'")]).contains("quotes"), "it has no effect");
    assert_eq!(warnings(&[], &[("OTEL_RESOURCE_ATTRIBUTES", "a")]), "", "nothing is sent");
    if cfg!(feature = "otlp") {
        let said = warnings(&["--otlp-endpoint=http://a:1"], &[("OTEL_RESOURCE_ATTRIBUTES", "a=b,c")]);
        assert!(said.contains("env OTEL_RESOURCE_ATTRIBUTES: `c` is not an attribute"), "{said}");
    }
}

#[test]
fn variables_of_other_proxies_that_ours_override_are_named() {
    let image = [("LARDER_HTTP", ":8080"), ("LARDER_INSECURE", "true")];
    let warnings = |env: &[(&str, &str)]| loaded(&[], &[&image[..], env].concat(), "").warnings.join("\n");
    for (name, text, own) in [
        ("PROXY_PORT", "9000", "LARDER_HTTP"),
        ("PROXY_HOST", "127.0.0.1", "LARDER_HTTP"),
        ("PROXY_TTL_MS", "1500", "LARDER_TTL"),
        ("PROXY_MAX_KEYS", "5", "LARDER_MAX_KEYS"),
        ("REDIS_HOST", "r", "LARDER_SOURCE"),
        ("REDIS_PORT", "7", "LARDER_SOURCE"),
        ("PEERS_SELF", "a:1", "LARDER_PEER_SELF"),
    ] {
        let own_vars = [
            ("LARDER_TTL", "2s"),
            ("LARDER_MAX_KEYS", "7"),
            ("LARDER_SOURCE", "redis://q"),
            ("LARDER_PEER_SELF", "b:1"),
            ("LARDER_PEERS", "b:1"),
        ];
        let said = warnings(&[&own_vars[..], &[(name, text)]].concat());
        let expected = format!("env {name}: without effect, because {own} sets ");
        assert!(said.contains(&expected), "{name}: {said}");
        let alone = loaded(&[], &[(name, text), ("PEERS_SET", "a:1")], "").warnings.join("\n");
        assert!(!alone.contains("without effect"), "{name}: {alone}");
    }
    let said = warnings(&[("PROXY_HOST", "127.0.0.2"), ("PROXY_PORT", "9000")]);
    assert!(said.contains("env PROXY_HOST, PROXY_PORT: without effect, because LARDER_HTTP sets http: set"), "{said}");
    for same in [
        [("PROXY_HOST", ""), ("PROXY_PORT", "8080")],
        [("PROXY_PORT", "8080"), ("OTEL_SERVICE_NAME", "x")],
        [("PROXY_TTL_MS", "2000"), ("LARDER_TTL", "2s")],
        [("PROXY_MAX_KEYS", "none"), ("LARDER_MAX_KEYS", "5")],
        [("REDIS_HOST", "r"), ("LARDER_SOURCE", "redis://r:6379/0")],
    ] {
        assert!(!warnings(&same).contains("without effect"), "{same:?}: {}", warnings(&same));
    }
}

#[test]
fn settings_from_arguments() {
    let settings = Settings::from_args(&["--http", "127.0.0.1:0", "--max-keys", "5"]).unwrap();
    assert_eq!((settings.http[0].port(), settings.groups[0].max_keys), (0, Some(5)));
    assert!(Settings::from_args(&["--htpp", "x"]).unwrap_err().to_string().contains("--http"));
}

#[test]
fn zones_of_nodes() {
    let zoned = ["--http=127.0.0.1:1", "--peers=127.0.0.1:1;zone=a,127.0.0.1:2;zone=b,127.0.0.1:3"];
    let of = |args: &[&str]| loaded(args, &[], "").settings.peers;
    let zone = |args: &[&str]| of(args).zone.map(|zone| zone.to_string());
    assert_eq!(zone(&zoned), Some("a".into()), "as the list says");
    let zones: Vec<_> = of(&zoned).peers.iter().map(|node| node.zone.as_ref().map(|zone| zone.to_string())).collect();
    assert_eq!(zones, [Some("a".to_owned()), Some("b".to_owned()), None]);
    let looked_up = ["--http=127.0.0.1:1", "--peers=dns:in-a:1;zone=a,dns:in-b:1;zone=b", "--peer-zone=b"];
    assert_eq!(zone(&looked_up), Some("b".into()));
    assert_eq!(zone(&looked_up[..1]), None);
    let factor = |text: &str| of(&[&format!("--peer-bounded-load={text}")]).bounded_load.map(|factor| factor.as_f64());
    assert_eq!((factor("1.25"), factor("2"), factor("none")), (Some(1.25), Some(2.0), None));
    assert_eq!(
        problems(&["--peers=pods:a=b,c=d;zone=a", "--peer-zone=a", "--peer-self=larder-0:8080"], &[], ""),
        [
            "flag --peers: peers: `pods:a=b,c=d:8080;zone=a`: the zone of a pod is its label topology.kubernetes.io/zone",
            "flag --peer-self: peer-self: `larder-0:8080` is not an address: pods know each other by their addresses"
        ]
    );
    assert_eq!(
        problems(&["--peers=gossip:a;zone=a", "--peer-zone=a", "--http=127.0.0.1:1"], &[], ""),
        ["flag --peers: peers: `gossip:a:7946;zone=a`: a node that gossips says itself in which zone it is"]
    );
    for (args, problem) in [
        (
            &["--peer-zone=b"][..],
            "flag --peer-zone: peer-zone: `127.0.0.1:1;zone=a` in peers is this node: write `127.0.0.1:1;zone=b` in the lists of all nodes",
        ),
        (
            &["--peer-bounded-load=1.25"],
            "flag --peer-bounded-load: peer-bounded-load: cannot be set together with peer-zone: a zone's reader would pass a key on to a node that asks that reader for it",
        ),
        (
            &["--hot-copy-ttl=0", "--peer-zone=a"],
            "flag --peer-zone: peer-zone: needs a hot-copy-ttl: without copies a zone's reader has nothing to answer with",
        ),
        (
            &["--peer-zone=none"],
            "flag --peers: peers: `127.0.0.1:1;zone=a` has a zone, and this node has none: set peer-zone",
        ),
        (
            &["--peer-bounded-load=0.9"],
            "flag --peer-bounded-load: peer-bounded-load: `0.9` is not a factor between 1 and 100: write 1.25",
        ),
    ] {
        assert_eq!(problems(&[&zoned[..], args].concat(), &[], ""), [problem]);
    }
}

#[test]
fn tls_settings_that_belong_together() {
    let pair = ["--tls-cert=a.crt", "--tls-key=a.key", "--tls-cert=b.crt", "--tls-key=b.key"];
    let settings = loaded(&pair, &[], "").settings;
    let files: Vec<_> = settings.tls.certificates.iter().map(|of| (of.cert.as_path(), of.key.as_path())).collect();
    assert_eq!(files, [("a.crt".as_ref(), "a.key".as_ref()), ("b.crt".as_ref(), "b.key".as_ref())]);
    assert!(!settings.tls.requires_certificates());
    assert!(loaded(&["--tls-client-ca=c"], &[], "").settings.tls.requires_certificates());
    let of_peers = |more: &[&str]| {
        let node = ["--https=127.0.0.1:8443", "--peer-tls-ca=n", "--tls-client-ca=c"];
        loaded(&[&pair[..], &node[..], more].concat(), &[], "").settings.peers
    };
    assert_eq!(of_peers(&[]).tls.expect("peer-tls-ca is set").ca.as_path(), "n".as_ref() as &std::path::Path);
    assert_eq!(loaded(&["--tls-client-ca=c"], &[], "").settings.peers.tls, None);
    assert_eq!(of_peers(&[]).this.expect("there is one").to_string(), "127.0.0.1:8443");
    let missing = "tls-cert and tls-key must be set";
    for (args, problem) in [
        (&["--https=:1"][..], format!("flag --https: https: {missing}")),
        (&["--rediss=:1"], format!("flag --rediss: rediss: {missing}")),
        (&["--admin-tls"], format!("flag --admin-tls: admin-tls: {missing}")),
        (&["--tls-key=a"], "flag --tls-key: tls-key: each tls-cert needs its tls-key: there are 0 and 1".into()),
        (&["--tls-cert=a"], "flag --tls-cert: tls-cert: each tls-cert needs its tls-key: there are 1 and 0".into()),
        (
            &["--tls-client-auth=optional"],
            "flag --tls-client-auth: tls-client-auth: has no meaning without tls-client-ca".into(),
        ),
        (
            &["--https=:1", "--peer-tls-ca=c"],
            format!("flag --https: https: {missing}\nflag --peer-tls-ca: peer-tls-ca: {missing}"),
        ),
        (
            &["--tls-cert=a", "--tls-key=a", "--peer-tls-ca=c"],
            "flag --peer-tls-ca: peer-tls-ca: https must be set: the other nodes reach this one there".into(),
        ),
        (&["--peer-tls-name=n"], "flag --peer-tls-name: peer-tls-name: has no meaning without peer-tls-ca".into()),
        (
            &["--tls-cert=a", "--tls-key=a", "--admin-tls", "--admin=off"],
            "flag --admin-tls: admin-tls: has no meaning without admin".into(),
        ),
    ] {
        assert_eq!(problems(args, &[], "").join("\n"), problem);
    }
    let named = "[listeners.apps]\nrediss = \":1\"\n";
    assert_eq!(problems(&[], &[], named), [format!("larder.toml:2: listeners.apps.rediss: {missing}")]);
    let listener = &loaded(&pair, &[], named).settings.listeners[0];
    assert_eq!((listener.redis.len(), listener.rediss.len()), (0, 1));
}
