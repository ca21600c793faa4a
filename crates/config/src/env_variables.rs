//! The environment: `LARDER_…` for every setting, and the variables of programs that people come
//! from.
use super::{
    listen_address::join_host,
    nearest_name::nearest,
    otlp_settings::resource_attribute,
    peer_entry::{PODS, PeerEntry},
    raw_settings::{Layer, RawValue, SettingOrigin, split},
    removed_settings::removed,
    settings_table::{SettingSpec, all_settings, find},
};
use std::collections::BTreeMap;

/// Variables by name; the caller reads the process's environment, tests make it up.
pub type Env = BTreeMap<String, String>;

const PREFIX: &str = "LARDER_";
/// Names the configuration file.
pub(super) const CONFIG: &str = "LARDER_CONFIG";

/// OpenTelemetry's own, which are often set for all programs of a pod.
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// For the client commands, which a shell may have set for all of `larder`.
const URL: &str = "LARDER_URL";

/// Our own variables. Those that match no setting are problems, except what Kubernetes sets for a
/// service called `larder`.
pub(super) fn own(env: &Env, problems: &mut Vec<String>) -> Layer {
    let mut layer = Layer::new();
    let names: Vec<(String, &SettingSpec)> = all_settings().map(|s| (s.env(), s)).collect();
    for (name, text) in env.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        if let Some((_, setting)) = names.iter().find(|(known, _)| known == name) {
            let value = RawValue { texts: split(setting, text), origin: SettingOrigin::Env(name.clone()) };
            layer.insert(setting.name, value);
        } else if let Some(problem) = removed(&name[PREFIX.len()..].to_ascii_lowercase().replace('_', "-")) {
            problems.push(format!("env {name}: {problem}"));
        } else if name != CONFIG && name != URL && !kubernetes_service_link(name, text) {
            // The common prefix would make everything look alike.
            let known = names.iter().map(|(known, _)| known.as_str()).chain([CONFIG]);
            let near = nearest(&name[PREFIX.len()..], known.map(|known| &known[PREFIX.len()..]))
                .map_or(String::new(), |near| format!(", did you mean {PREFIX}{near}?"));
            problems.push(format!("env {name}: no such setting{near}"));
        }
    }
    layer
}

/// The variables of other programs. They are read loosely: only what is set counts, nothing is
/// unknown.
pub(super) fn foreign(env: &Env) -> Layer {
    let get = |name: &str| env.get(name).map(|text| text.trim()).filter(|text| !kubernetes_service_link(name, text));
    let mut layer = Layer::new();
    let mut set = |name, text: String, origin: &str| {
        let origin = SettingOrigin::Env(origin.to_string());
        let texts = find(name).map_or_else(|| vec![text.clone()], |setting| split(setting, &text));
        layer.insert(name, RawValue { texts, origin });
    };
    match (get("PROXY_HOST"), get("PROXY_PORT").filter(|port| !port.is_empty())) {
        (None, None) => {}
        (Some(host), None) => set("http", join_host(host, "8080"), "PROXY_HOST"),
        (None, Some(port)) => set("http", join_host("127.0.0.1", port), "PROXY_PORT"),
        (Some(host), Some(port)) => set("http", join_host(host, port), "PROXY_HOST, PROXY_PORT"),
    }
    let filled = |name| get(name).filter(|text| !text.is_empty());
    match (filled("REDIS_HOST"), filled("REDIS_PORT")) {
        (None, None) => {}
        (Some(host), None) => set("source", redis_url(host, "6379"), "REDIS_HOST"),
        (None, Some(port)) => set("source", redis_url("127.0.0.1", port), "REDIS_PORT"),
        (Some(host), Some(port)) => set("source", redis_url(host, port), "REDIS_HOST, REDIS_PORT"),
    }
    if let Some(peers) = filled("PEERS_SET") {
        let is_selector = get("PEERS_TYPE") == Some("pods") && !peers.starts_with(PODS);
        set("peers", format!("{}{peers}", if is_selector { PODS } else { "" }), "PEERS_SET");
    }
    if let Some(this) = filled("PEERS_SELF") {
        set("peer-self", this.to_string(), "PEERS_SELF");
    }
    if let Some(n) = filled("PROXY_MAX_KEYS") {
        set("max-keys", n.to_string(), "PROXY_MAX_KEYS");
    }
    if let Some(millis) = filled("PROXY_TTL_MS") {
        set("ttl", format!("{millis}ms"), "PROXY_TTL_MS");
    }
    let attributes = filled(RESOURCE_ATTRIBUTES).filter(|text| wrong_attribute(text).is_none());
    // The last one of a name counts.
    let name = filled(SERVICE_NAME);
    let name = name.map(|name| format!("service.name={}", name.replace('%', "%25").replace(',', "%2C")));
    let origin = match (attributes, &name) {
        (Some(_), Some(_)) => &format!("{RESOURCE_ATTRIBUTES}, {SERVICE_NAME}"),
        (None, Some(_)) => SERVICE_NAME,
        _ => RESOURCE_ATTRIBUTES,
    };
    let all: Vec<&str> = attributes.into_iter().chain(name.as_deref()).collect();
    if !all.is_empty() {
        set("otlp-resource-attributes", all.join(","), origin);
    }
    layer
}

/// OpenTelemetry wants a wrong variable to be reported and ignored: it must not stop a program.
fn wrong_attribute(attributes: &str) -> Option<String> {
    let attributes = attributes.split(',').map(str::trim).filter(|text| !text.is_empty());
    attributes.map(resource_attribute).find_map(Result::err)
}

/// Variables that were taken, but probably do not say what the user means. `top`: the settings that
/// they and the other layers come to. Values are not shown: they may be secrets.
pub(super) fn env_warnings(env: &Env, top: &Layer) -> Vec<String> {
    let names = top.values().filter_map(|value| match &value.origin {
        SettingOrigin::Env(names) => Some(names.split(", ")),
        _ => None,
    });
    let is_quoted = |text: &str| {
        let text = text.trim();
        let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
        inner('"').or_else(|| inner('\'')).is_some()
    };
    let quoted = names.flatten().filter(|name| env.get(*name).is_some_and(|text| is_quoted(text)));
    let mut warnings: Vec<String> = quoted
        .map(|name| {
            format!("env {name}: the quotes around it are part of its value, because `docker run --env-file` keeps them: write it without them")
        })
        .collect();
    if let Some(wrong) = env.get(RESOURCE_ATTRIBUTES).and_then(|text| wrong_attribute(text))
        && top.contains_key("otlp-endpoint")
    {
        warnings.push(format!("env {RESOURCE_ATTRIBUTES}: {wrong}; Larder ignores the variable"));
    }
    warnings
}

/// What Kubernetes tells a pod by the downward API, for `peers` that are pods: where the pod is.
pub(super) fn of_pods(env: &Env, peers: &str) -> Layer {
    let mut layer = Layer::new();
    let Ok(PeerEntry::Pods(pods)) = peers.parse() else { return layer };
    let get = |name: &str| env.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
    if let Some(ip) = get("POD_IP") {
        let origin = SettingOrigin::Env("POD_IP".to_owned());
        layer.insert("peer-self", RawValue { texts: vec![join_host(ip, &pods.port.to_string())], origin });
    }
    layer
}

/// `PEERS_TYPE`: how demos of groupcache are told to find their nodes. `peers`: the first item that
/// some layer names.
pub(super) fn check_peers_type(env: &Env, peers: Option<&str>, problems: &mut Vec<String>) {
    let problem = match env.get("PEERS_TYPE").map(|text| text.trim()) {
        None | Some("") => return,
        Some("set") if peers.is_some() => return,
        Some("set") => "is `set`, but neither PEERS_SET nor `peers` names the nodes".to_owned(),
        Some("pods") if peers.is_some_and(|first| first.starts_with(PODS)) => return,
        Some("pods") => {
            "is `pods`, but neither PEERS_SET nor `peers` has a label selector: write PEERS_SET=app=larder:8080"
                .to_owned()
        }
        Some(other) => format!("`{other}` is neither `set` nor `pods`"),
    };
    problems.push(format!("env PEERS_TYPE: {problem}"));
}

fn redis_url(host: &str, port: &str) -> String {
    format!("redis://{}", join_host(host, port))
}

/// Kubernetes gives every pod the addresses of the services of its namespace in variables such as
/// `REDIS_PORT=tcp://10.0.0.7:6379`, `LARDER_SERVICE_HOST` and `LARDER_PORT_8080_TCP_ADDR`. No user
/// set them.
fn kubernetes_service_link(name: &str, text: &str) -> bool {
    const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
    let link = PROTOCOLS.iter().any(|p| text.starts_with(&format!("{}://", p.to_ascii_lowercase())));
    let of_a_port = || {
        // …_PORT_8080_TCP, …_PORT_8080_TCP_ADDR
        let mut words = name.split('_').skip_while(|word| *word != "PORT").skip(1);
        words.next().is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
            && words.next().is_some_and(|protocol| PROTOCOLS.contains(&protocol))
    };
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && link)
        || of_a_port()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(vars: &[(&str, &str)]) -> Env {
        vars.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
    }
    fn shown(layer: Layer) -> Vec<String> {
        layer.iter().map(|(name, v)| format!("{name}={} ({})", v.texts.join("|"), v.origin)).collect()
    }

    #[test]
    fn own_variables() {
        let mut problems = Vec::new();
        let layer = own(
            &env(&[("LARDER_HTTP", ":1, :2"), ("LARDER_MAX_MEMORY", "1GB"), ("PATH", "/bin"), ("LARDER_CONFIG", "x")]),
            &mut problems,
        );
        assert_eq!(shown(layer), ["http=:1|:2 (env LARDER_HTTP)", "max-memory=1GB (env LARDER_MAX_MEMORY)"]);
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn unknown_variables_are_problems() {
        let mut problems = Vec::new();
        own(
            &env(&[("LARDER_MAXMEMORY", "1"), ("LARDER_CONFIGS", "1"), ("LARDER_X", "1"), ("larder_http", "1")]),
            &mut problems,
        );
        assert_eq!(
            problems,
            [
                "env LARDER_CONFIGS: no such setting, did you mean LARDER_CONFIG?",
                "env LARDER_MAXMEMORY: no such setting, did you mean LARDER_MAX_MEMORY?",
                "env LARDER_X: no such setting",
            ]
        );
    }

    #[test]
    fn kubernetes_service_links_are_passed_over() {
        let links = env(&[
            ("LARDER_PORT", "tcp://10.0.0.8:8080"),
            ("LARDER_SERVICE_HOST", "10.0.0.8"),
            ("LARDER_SERVICE_PORT", "8080"),
            ("LARDER_SERVICE_PORT_HTTP", "8080"),
            ("LARDER_PORT_8080_TCP", "tcp://10.0.0.8:8080"),
            ("LARDER_PORT_8080_TCP_ADDR", "10.0.0.8"),
            ("LARDER_PORT_8080_TCP_PROTO", "tcp"),
            ("LARDER_REDIS_PORT_6380_TCP_PORT", "6380"),
            ("REDIS_PORT", "tcp://10.0.0.7:6379"),
            ("REDIS_SERVICE_HOST", "10.0.0.7"),
        ]);
        let mut problems = Vec::new();
        assert_eq!(shown(own(&links, &mut problems)), [""; 0]);
        assert_eq!(problems, [""; 0]);
        assert_eq!(shown(foreign(&links)), [""; 0]);
        assert!(!kubernetes_service_link("LARDER_PORT", "8080"));
    }

    #[test]
    fn ways_to_find_peers() {
        let problems = |kind: &str, peers| {
            let mut problems = Vec::new();
            check_peers_type(&env(&[("PEERS_TYPE", kind)]), peers, &mut problems);
            problems.join("; ")
        };
        assert_eq!(problems("set", Some("a:1")) + &problems(" ", None) + &problems("pods", Some("pods:a=b")), "");
        for (kind, peers, expected) in [
            ("set", None, "is `set`, but neither PEERS_SET nor `peers` names the nodes"),
            ("pods", Some("a:1"), "has a label selector: write PEERS_SET=app=larder:8080"),
            ("pods", None, "has a label selector: write PEERS_SET=app=larder:8080"),
            ("dns", Some("a:1"), "`dns` is neither `set` nor `pods`"),
        ] {
            let problem = problems(kind, peers);
            assert!(problem.starts_with("env PEERS_TYPE: ") && problem.ends_with(expected), "{problem}");
        }
    }

    #[test]
    fn what_kubernetes_tells_a_pod() {
        let told = env(&[("POD_IP", "10.1.2.3")]);
        assert_eq!(shown(of_pods(&told, "pods:a=b:81")), ["peer-self=10.1.2.3:81 (env POD_IP)"]);
        assert_eq!(shown(of_pods(&told, "dns:a:81")), [""; 0], "of no use elsewhere");
    }

    #[test]
    fn variables_of_other_proxies() {
        for (vars, expected) in [
            (&[("PROXY_HOST", ""), ("PROXY_PORT", "9000")][..], "http=:9000 (env PROXY_HOST, PROXY_PORT)"),
            (&[("PROXY_PORT", "9000")], "http=127.0.0.1:9000 (env PROXY_PORT)"),
            (&[("PROXY_HOST", "::1")], "http=[::1]:8080 (env PROXY_HOST)"),
            (&[("PROXY_MAX_KEYS", "5")], "max-keys=5 (env PROXY_MAX_KEYS)"),
            (&[("PROXY_TTL_MS", "1500")], "ttl=1500ms (env PROXY_TTL_MS)"),
            (&[("OTEL_SERVICE_NAME", "a,b")], "otlp-resource-attributes=service.name=a%2Cb (env OTEL_SERVICE_NAME)"),
            (
                &[("OTEL_SERVICE_NAME", "a"), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=b,c=d")],
                "otlp-resource-attributes=service.name=b|c=d|service.name=a (env OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME)",
            ),
            (
                &[("OTEL_RESOURCE_ATTRIBUTES", "a=b, c=d,")],
                "otlp-resource-attributes=a=b|c=d (env OTEL_RESOURCE_ATTRIBUTES)",
            ),
            (&[("PEERS_SET", "a:1,http://b:2")], "peers=a:1|http://b:2 (env PEERS_SET)"),
            (&[("PEERS_SELF", "a:1")], "peer-self=a:1 (env PEERS_SELF)"),
            (&[("PEERS_TYPE", "pods"), ("PEERS_SET", "a=b,c:81")], "peers=pods:a=b,c:81 (env PEERS_SET)"),
            (&[("REDIS_HOST", "r")], "source=redis://r:6379 (env REDIS_HOST)"),
            (&[("REDIS_PORT", "7")], "source=redis://127.0.0.1:7 (env REDIS_PORT)"),
            (&[("REDIS_HOST", "::1"), ("REDIS_PORT", "7")], "source=redis://[::1]:7 (env REDIS_HOST, REDIS_PORT)"),
        ] {
            assert_eq!(shown(foreign(&env(vars))), [expected]);
        }
        assert_eq!(shown(foreign(&env(&[("REDIS_HOST", ""), ("PROXY_TTL_MS", "")]))), [""; 0]);
        assert_eq!(shown(foreign(&env(&[("OTEL_RESOURCE_ATTRIBUTES", "a=b,c")]))), [""; 0]);
    }
}
