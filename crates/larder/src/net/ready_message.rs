//! The ready message: where the process listens, what it is and whether its sources answer.
use larder_base::{lifecycle::service_manager, telemetry::Build};
use larder_config::Address;
use larder_core::{
    app::{App, Bound},
    read::ProcessGroup,
};
use larder_units::show_rounded_size;
use serde::Serialize;
use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write as _},
};

/// How this program is built (`build.rs`): a debug build is slow, and says so.
pub(super) const BUILD: Build = Build { commit: env!("BUILD_COMMIT"), profile: env!("BUILD_PROFILE") };
const PROFILE: &str = BUILD.profile;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Says on standard output that the process listens: one JSON object, or lines for a person if that
/// is a terminal. A closed standard output is no reason to stop. Tells the service manager, too.
pub(super) fn announce(app: &App) {
    let message = Message::of(app);
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() { message.for_a_terminal() } else { message.json() };
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    service_manager::ready(&message.status());
}

/// Like `announce`, as a line of the log.
pub(super) fn log(app: &App) {
    let message = Message::of(app);
    let settings = &app.settings;
    let of_group = |group: &GroupLine| {
        format!("{}: {} in front of {}", group.name, show_rounded_size(group.max_memory as u64), group.source)
    };
    tracing::info!(
        version = VERSION,
        commit = BUILD.commit,
        profile = PROFILE,
        threads = settings.threads,
        groups = message.groups.iter().map(of_group).collect::<Vec<_>>().join(", "),
        max_buffers = show_rounded_size(settings.max_buffers as u64),
        max_connections = app.clients.limit(),
        "started"
    );
}

/// In the order of the JSON object's fields.
#[derive(Serialize)]
struct Message {
    ready: bool,
    http: Vec<Address>,
    redis: Vec<Address>,
    admin: Option<Address>,
    pid: u32,
    https: Vec<Address>,
    rediss: Vec<Address>,
    memcached: Vec<Address>,
    memcacheds: Vec<Address>,
    version: &'static str,
    profile: &'static str,
    groups: Vec<GroupLine>,
    /// For a terminal only: who asks for TLS on the admin listener knows.
    #[serde(skip)]
    admin_tls: bool,
}

#[derive(Serialize)]
struct GroupLine {
    name: String,
    /// Bytes.
    max_memory: usize,
    /// The URL, the password masked.
    source: String,
    reached: bool,
    /// Why the source is not reached.
    error: Option<String>,
}

/// The URL of a listener, or the address of a Unix socket.
fn url(scheme: &str, address: &Address, path: &str) -> String {
    match address {
        Address::Ip(address) => format!("{scheme}://{address}{path}"),
        Address::Unix(_) => format!("{scheme} {address}"),
    }
}

impl Message {
    fn of(app: &App) -> Message {
        let groups = app.groups.iter().map(|group: &ProcessGroup| {
            let (health, group) = (group.source().health(), &group.settings);
            let reached = health.is_up();
            GroupLine {
                name: group.name.clone(),
                max_memory: group.max_memory,
                source: group.source.to_string(),
                reached,
                error: (!reached).then(|| {
                    health.last_error().map_or_else(|| "still connecting".to_owned(), |reason| reason.to_string())
                }),
            }
        });
        let Bound { http, https, redis, rediss, memcached, memcacheds, admin } = app.bound.clone();
        Message {
            ready: true,
            http,
            redis,
            admin,
            pid: std::process::id(),
            https,
            rediss,
            memcached,
            memcacheds,
            version: VERSION,
            profile: PROFILE,
            groups: groups.collect(),
            admin_tls: app.settings.admin_tls,
        }
    }

    /// One line for `systemctl status`.
    fn status(&self) -> String {
        let listeners = [
            ("http", &self.http),
            ("https", &self.https),
            ("redis", &self.redis),
            ("rediss", &self.rediss),
            ("memcached", &self.memcached),
            ("memcacheds", &self.memcacheds),
        ];
        let mut addresses: Vec<String> = (listeners.iter())
            .flat_map(|(scheme, of)| of.iter().map(move |address| url(scheme, address, "")))
            .collect();
        addresses.extend(self.admin.as_ref().map(|address| format!("admin {address}")));
        format!("Serving {}", addresses.join(", "))
    }

    fn json(&self) -> String {
        let object = serde_json::to_string(self).expect("addresses, numbers and texts are JSON");
        format!("{object}\n")
    }

    fn for_a_terminal(&self) -> String {
        // Writing to a String cannot fail.
        let mut text = format!("larder {VERSION} ({PROFILE} build) is ready\n");
        for address in &self.http {
            let _ = writeln!(text, "  http    {}", url("http", address, "/"));
        }
        for address in &self.https {
            let _ = writeln!(text, "  https   {}", url("https", address, "/"));
        }
        for address in &self.redis {
            let _ = writeln!(text, "  redis   {}", url("redis", address, "/"));
        }
        for address in &self.rediss {
            let _ = writeln!(text, "  rediss  {}", url("rediss", address, "/"));
        }
        for address in &self.memcached {
            let _ = writeln!(text, "  memcached {address}");
        }
        for address in &self.memcacheds {
            let _ = writeln!(text, "  memcached {address} (TLS)");
        }
        if let Some(address) = &self.admin {
            let scheme = if self.admin_tls { "https" } else { "http" };
            let _ = writeln!(text, "  admin   {} (the console, in a browser)", url(scheme, address, "/"));
        }
        for group in &self.groups {
            let reached = match &group.error {
                None if group.source == "none:" => String::new(),
                None => " (reached)".to_owned(),
                Some(reason) => format!(" (not reached: {reason})"),
            };
            let name = if group.name == "default" { String::new() } else { format!("group {}: ", group.name) };
            let _ = writeln!(text, "  memory  {name}{}", show_rounded_size(group.max_memory as u64));
            let _ = writeln!(text, "  source  {name}{}{reached}", group.source);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(address: &str) -> Address {
        Address::Ip(address.parse().expect("an address"))
    }

    fn message() -> Message {
        Message {
            ready: true,
            pid: 7,
            version: VERSION,
            profile: PROFILE,
            http: vec![ip("127.0.0.1:8080"), ip("[::1]:80")],
            redis: vec![],
            admin: Some(ip("127.0.0.1:8081")),
            https: vec![ip("127.0.0.1:8443")],
            rediss: vec![ip("127.0.0.1:6390")],
            memcached: vec![ip("127.0.0.1:11211")],
            memcacheds: vec![],
            admin_tls: true,
            groups: vec![GroupLine {
                name: "default".into(),
                source: "redis://:***@127.0.0.1:6379/0".into(),
                max_memory: 64 << 20,
                reached: false,
                error: Some("connection refused".into()),
            }],
        }
    }

    #[test]
    fn the_line_is_as_documented() {
        let line = message().json();
        let begin = "{\"ready\":true,\"http\":[\"127.0.0.1:8080\",\"[::1]:80\"],\"redis\":[],\"admin\":\"127.0.0.1:8081\",\"pid\":7,\
            \"https\":[\"127.0.0.1:8443\"],\"rediss\":[\"127.0.0.1:6390\"],\"memcached\":[\"127.0.0.1:11211\"],\"memcacheds\":[],";
        assert!(line.starts_with(begin), "{line}");
        assert!(line.ends_with("}\n") && line.lines().count() == 1, "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((read["version"].as_str(), read["profile"].as_str()), (Some(VERSION), Some(PROFILE)));
        let group = &read["groups"][0];
        assert_eq!(group["source"], "redis://:***@127.0.0.1:6379/0");
        assert_eq!((group["max_memory"].as_u64(), group["reached"].as_bool()), (Some(64 << 20), Some(false)));
        assert_eq!(group["error"], "connection refused");
    }

    #[test]
    fn the_service_manager_gets_one_line() {
        let expected = "Serving http://127.0.0.1:8080, http://[::1]:80, https://127.0.0.1:8443, \
            rediss://127.0.0.1:6390, memcached://127.0.0.1:11211, admin 127.0.0.1:8081";
        assert_eq!(message().status(), expected);
    }

    #[test]
    fn no_admin_listener_is_null() {
        let message = Message { admin: None, ..message() };
        assert!(message.json().contains("\"admin\":null,"));
    }

    #[test]
    fn a_terminal_is_told_the_same() {
        let text = message().for_a_terminal();
        let tls = [
            "https://127.0.0.1:8443/",
            "rediss://127.0.0.1:6390/",
            "admin   https://127.0.0.1:8081/ (the console, in a browser)\n",
        ];
        let parts = [VERSION, PROFILE, "http://[::1]:80/", "  memory  64MiB\n", "(not reached: connection refused)"];
        for part in parts.into_iter().chain(tls) {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }
}
