//! The table of settings: what feeds flags, environment, file, help, documentation and `config
//! print`.
//!
//! To add a setting: a row here, a field in [`Settings`](super::settings::Settings) and the line in
//! `check_settings.rs` that fills it. Tests fail until all three agree.
use super::{
    eviction,
    key_length::MAX_KEY,
    peer_settings::{PeerHash, PeerName, PeerTransport},
    replication_settings::ReplicaWrites,
    settings::{Coherence, LogFormat, LogLevel, TierMode},
    tls_settings::{TlsClientAuth, TlsClientUser},
    transport::Transport,
    trusted_proxies::{ForwardedHeader, ProxyProtocol},
};
use Fallback::{Computed, Is, Off};
use larder_engine::MAX_SHARDS;
use larder_store::{disk::Compression, snapshot::SnapshotCompression};

/// One setting. Its flag is `--name`, its file key `name`, its variable [`SettingSpec::env`].
#[derive(Debug)]
pub struct SettingSpec {
    /// Lower case, words joined by hyphens.
    pub name: &'static str,
    /// Where help and documentation list it.
    pub section: SettingSection,
    /// How its text is read.
    pub kind: ValueKind,
    /// The value if it is not set.
    pub default: Fallback,
    /// Takes `none` or `off` (or nothing).
    pub optional: bool,
    /// Takes several values: a repeated flag, a comma-separated variable, an array in the file.
    pub many: bool,
    /// May also stand under `[groups.NAME]`; the flag and the variable set group `default`.
    pub per_group: bool,
    /// May also stand under `[listeners.NAME]`, for which else the top level's value holds; the
    /// flag and the variable set the top level.
    pub per_listener: bool,
    /// May also stand under `[prefixes."PREFIX"]` of a group, for which else the group's value
    /// holds.
    pub per_prefix: bool,
    /// A reload of the configuration changes it; what is not needs a restart.
    pub live: bool,
    /// Variables of other programs that mean the same, with less weight than our own.
    pub also: &'static [&'static str],
    /// A value other than the default, for the documentation and the tests.
    pub example: &'static str,
    /// One or two sentences.
    pub help: &'static str,
}

impl PartialEq for SettingSpec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Headings of help and documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum SettingSection {
    Listening,
    Tls,
    Cache,
    Freshness,
    Source,
    Store,
    Snapshots,
    Peers,
    Replication,
    Limits,
    Throttle,
    Process,
}
impl SettingSection {
    /// In the order of the documentation.
    pub const ALL: [SettingSection; 12] = [
        SettingSection::Listening,
        SettingSection::Tls,
        SettingSection::Cache,
        SettingSection::Freshness,
        SettingSection::Source,
        SettingSection::Store,
        SettingSection::Snapshots,
        SettingSection::Peers,
        SettingSection::Replication,
        SettingSection::Limits,
        SettingSection::Throttle,
        SettingSection::Process,
    ];
    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            SettingSection::Listening => "Listening",
            SettingSection::Tls => "TLS",
            SettingSection::Cache => "Memory tier",
            SettingSection::Freshness => "Freshness",
            SettingSection::Source => "Source",
            SettingSection::Store => "Disk store",
            SettingSection::Snapshots => "Snapshots",
            SettingSection::Peers => "Peers",
            SettingSection::Replication => "Replication",
            SettingSection::Limits => "Limits",
            SettingSection::Throttle => "Throttle",
            SettingSection::Process => "Process",
        }
    }
}

/// How a setting's text is read; bounds are inclusive.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs)]
pub enum ValueKind {
    /// Bytes.
    Size { min: u64, max: u64 },
    /// Bytes, or a percentage of the memory that the process may use.
    Memory { min: u64 },
    /// A whole number.
    Count { min: u64, max: u64 },
    /// `0%` to `max%`; the sign may be left out.
    Percent { max: u64 },
    /// Milliseconds.
    Duration { min: u64, max: u64 },
    /// When a copy is renewed before it is out of date: a share of the lifetime, or `xfetch`.
    RefreshAhead,
    /// A share of all, down to a millionth: `0.1%`.
    Share,
    /// Requests per second: `1000/s`.
    Rate,
    /// Requests per second for keys with a prefix: `user:=1000/s`.
    PrefixRate,
    /// Requests per second for commands: `@write=100/s`.
    CommandRate,
    /// A listening address.
    Address,
    /// An address, or a range of them: `10.0.0.0/8`.
    AddressRange,
    /// A source URL.
    Source,
    /// When a write is on stable storage.
    Durability,
    /// A directory.
    Path,
    /// What keys begin with.
    Prefix,
    /// A host and a port, which are not looked up here.
    Endpoint,
    /// The name of a host, which is not looked up here.
    Hostname,
    /// A node that shares its cache: host and port, or a base URL.
    Peer,
    /// Or a way to find such nodes; and their zone.
    PeerEntry,
    /// The name of a zone.
    Zone,
    /// A factor of a mean: `1.25`.
    LoadFactor,
    /// The first part of the paths of an API: `/cache/v1`.
    RoutePrefix,
    /// Where a primary serves the Redis protocol.
    Primary,
    /// How a replica follows its primary.
    ReplicationMode,
    /// Any text.
    Text,
    /// Any text; it is not shown.
    Secret,
    /// A header field to send, `Name: value` or `Name: @FILE`; a value is not shown.
    Header,
    /// The name of a header field.
    HeaderName,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// `true` or `false`; the flag alone means `true`.
    Switch,
    /// A command's name, `parent|subcommand` or `@category`.
    Command,
}

/// A setting's default.
#[derive(Debug, Clone, Copy)]
pub enum Fallback {
    /// This text, read like any other.
    Is(&'static str),
    /// None.
    Off,
    /// Worked out when checked (`computed_defaults.rs`); the text says how.
    Computed(&'static str),
}

impl SettingSpec {
    /// Its environment variable: `LARDER_MAX_MEMORY` for `max-memory`.
    pub fn env(&self) -> String {
        format!("LARDER_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }
    /// The placeholder in help texts.
    pub fn placeholder(&self) -> &'static str {
        match self.kind {
            ValueKind::Size { .. } | ValueKind::Memory { .. } => "SIZE",
            ValueKind::Count { .. } => "N",
            ValueKind::Percent { .. } | ValueKind::Share => "PERCENT",
            ValueKind::Duration { .. } => "DURATION",
            ValueKind::RefreshAhead => "WHEN",
            ValueKind::Rate => "N/s",
            ValueKind::PrefixRate => "PREFIX=N/s",
            ValueKind::CommandRate => "COMMAND=N/s",
            ValueKind::Address => "ADDR",
            ValueKind::AddressRange => "RANGE",
            ValueKind::Source => "URL",
            ValueKind::Durability => "WHEN",
            ValueKind::Path => "PATH",
            ValueKind::Prefix | ValueKind::RoutePrefix => "PREFIX",
            ValueKind::Endpoint | ValueKind::Peer | ValueKind::PeerEntry => "HOST:PORT",
            ValueKind::Zone => "NAME",
            ValueKind::LoadFactor => "FACTOR",
            ValueKind::Hostname => "HOST",
            ValueKind::Primary => "URL",
            ValueKind::ReplicationMode => "MODE",
            ValueKind::Text | ValueKind::Secret => "TEXT",
            ValueKind::Header => "HEADER",
            ValueKind::HeaderName => "NAME",
            ValueKind::Choice(_) => "NAME",
            ValueKind::Switch => "BOOL",
            ValueKind::Command => "COMMAND",
        }
    }
}

/// The setting of that name.
pub(super) fn find(name: &str) -> Option<&'static SettingSpec> {
    TABLE.iter().find(|setting| setting.name == name)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Above this a duration is a mistake, and sums with the clock stay far from overflow.
const TEN_YEARS: u64 = 10 * 365 * 86_400_000;
const DAY: u64 = 86_400_000;
/// What the engine's formats allow; lower limits may be set.
const MAX_VALUE: u64 = 512 * MIB;

const ROW: SettingSpec = SettingSpec {
    name: "",
    section: SettingSection::Process,
    kind: ValueKind::Path,
    default: Off,
    optional: false,
    many: false,
    per_group: false,
    per_listener: false,
    per_prefix: false,
    live: false,
    also: &[],
    example: "",
    help: "",
};

/// Every setting.
pub const TABLE: &[SettingSpec] = &[
    SettingSpec {
        name: "http",
        section: SettingSection::Listening,
        kind: ValueKind::Address,
        default: Is("127.0.0.1:8080"),
        optional: true,
        many: true,
        also: &["PROXY_HOST", "PROXY_PORT"],
        example: ":8080",
        help: "Address for HTTP. Port 0 takes a free one; no host means all interfaces.",
        ..ROW
    },
    SettingSpec {
        name: "redis",
        section: SettingSection::Listening,
        kind: ValueKind::Address,
        default: Is("127.0.0.1:6380"),
        optional: true,
        many: true,
        per_listener: true,
        example: ":6380",
        help: "Address for the Redis protocol.",
        ..ROW
    },
    SettingSpec {
        name: "deny-commands",
        section: SettingSection::Listening,
        kind: ValueKind::Command,
        optional: true,
        many: true,
        per_listener: true,
        example: "@dangerous",
        help: "Commands that Redis clients may not call: names (`flushall`), subcommands \
               (`config|set`) or categories (`@dangerous`). They are answered with `-NOPERM`. See \
               docs/in-front-of-redis.md.",
        ..ROW
    },
    SettingSpec {
        name: "allow-commands",
        section: SettingSection::Listening,
        kind: ValueKind::Command,
        optional: true,
        many: true,
        per_listener: true,
        example: "@read",
        help: "The only commands that Redis clients may call, in the form of `deny-commands`. \
               Empty: all commands. If both lists match, the more exact entry decides: `config|set` \
               before `config` before `@admin` before `@all`. If both are equally exact, \
               `deny-commands` wins. AUTH, HELLO, QUIT and RESET are always allowed.",
        ..ROW
    },
    SettingSpec {
        name: "forward-admin",
        section: SettingSection::Listening,
        kind: ValueKind::Switch,
        default: Is("false"),
        per_listener: true,
        example: "true",
        help: "Forwards commands that stop the source's Redis server, change its primary, or change \
               who can log in: SHUTDOWN, DEBUG, REPLICAOF, FAILOVER, MODULE LOAD, MIGRATE, ACL \
               SETUSER, CONFIG REWRITE, CONFIG SET of anything but tuning, and related commands. \
               Without it, Larder refuses them.",
        ..ROW
    },
    SettingSpec {
        name: "admin",
        section: SettingSection::Listening,
        kind: ValueKind::Address,
        default: Is("127.0.0.1:8081"),
        optional: true,
        example: "127.0.0.1:9090",
        help: "Address for the admin routes. Keep it off public networks.",
        ..ROW
    },
    SettingSpec {
        name: "trusted-proxies",
        section: SettingSection::Listening,
        kind: ValueKind::AddressRange,
        optional: true,
        many: true,
        example: "10.0.0.0/8",
        help: "Addresses and ranges of trusted proxies. Larder uses the client address that they send (`proxy-protocol`, `forwarded-header`), and ignores it from other addresses. See docs/proxies.md.",
        ..ROW
    },
    SettingSpec {
        name: "proxy-protocol",
        section: SettingSection::Listening,
        kind: ValueKind::Choice(ProxyProtocol::NAMES),
        default: Is("off"),
        per_listener: true,
        example: "required",
        help: "Reads the PROXY protocol (version 1 or 2) on connections of trusted proxies to the \
               HTTP and Redis listeners. `required`: a connection without the header is closed. \
               `optional`: it is served. `optional` is safe only if every trusted proxy sends the \
               header or removes the ones that its clients send.",
        ..ROW
    },
    SettingSpec {
        name: "forwarded-header",
        section: SettingSection::Listening,
        kind: ValueKind::Choice(ForwardedHeader::NAMES),
        default: Is("x-forwarded-for"),
        example: "forwarded",
        help: "Header in which trusted proxies name the client of an HTTP request. The client is \
               the rightmost address that is not a trusted proxy. The other header is ignored, \
               because clients can send it themselves.",
        ..ROW
    },
    SettingSpec {
        name: "password",
        section: SettingSection::Listening,
        kind: ValueKind::Secret,
        optional: true,
        example: "correct horse",
        help: "Password of the user `default` on every listener: AUTH and HELLO over the Redis \
               protocol, `Authorization: Basic` and `Bearer` over HTTP. Only `/healthz`, `/readyz` \
               and the descriptions of the routes are open. See docs/users.md.",
        ..ROW
    },
    SettingSpec {
        name: "password-file",
        section: SettingSection::Listening,
        kind: ValueKind::Path,
        optional: true,
        example: "/run/secrets/larder-password",
        help: "File with the `password`, in one line. Unlike a flag or a variable, it does not show in process lists or the environment. Larder reads it at the start. A reload reports a changed password, which needs a restart.",
        ..ROW
    },
    SettingSpec {
        name: "insecure",
        section: SettingSection::Listening,
        kind: ValueKind::Switch,
        default: Is("false"),
        example: "true",
        help: "Serves other machines without authentication. Otherwise Larder does not start on an \
               address that other machines can reach unless `password`, `users-file` or clients' \
               certificates (`tls-client-ca`) are set.",
        ..ROW
    },
    SettingSpec {
        name: "users-file",
        section: SettingSection::Listening,
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/users.acl",
        help: "File of users, one per line, in the format of Redis's `aclfile`: `user app on \
               #SHA-256 ~app:* &* +@read`. SIGHUP, `POST /v1/config/reload` and ACL LOAD read it \
               again. See docs/users.md.",
        ..ROW
    },
    SettingSpec {
        name: "jwt-jwks",
        section: SettingSection::Listening,
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/jwks.json",
        help: "File of the public keys that verify JSON Web Tokens, a JWK Set (RFC 7517). A token is then a login: `Authorization: Bearer` over HTTP, the password of AUTH and HELLO. It names a user of `users-file`. Needs `jwt-issuer` and `jwt-audience`. Read again with SIGHUP, `POST /v1/config/reload` and ACL LOAD. See docs/users.md.",
        ..ROW
    },
    SettingSpec {
        name: "jwt-issuer",
        section: SettingSection::Listening,
        kind: ValueKind::Text,
        optional: true,
        example: "https://login.example.com/",
        help: "The value that the claim `iss` of a token must have, exactly.",
        ..ROW
    },
    SettingSpec {
        name: "jwt-audience",
        section: SettingSection::Listening,
        kind: ValueKind::Text,
        optional: true,
        many: true,
        example: "larder",
        help: "Names of this service. The claim `aud` of a token must have one of them. Tokens for other services are refused.",
        ..ROW
    },
    SettingSpec {
        name: "jwt-user-claim",
        section: SettingSection::Listening,
        kind: ValueKind::Text,
        default: Is("sub"),
        example: "preferred_username",
        help: "The claim of a token that names the user of `users-file`.",
        ..ROW
    },
    SettingSpec {
        name: "auth",
        section: SettingSection::Listening,
        kind: ValueKind::Choice(&["larder", "passthrough"]),
        default: Is("larder"),
        example: "passthrough",
        help: "Where Redis clients are authenticated. `larder`: here, by `password` and \
               `users-file`; if neither is set, every client has the rights of Larder's own user at \
               the source. `passthrough`: at the source's Redis; clients use their credentials \
               there, and Larder serves them only keys that they may read there. See \
               docs/passthrough.md.",
        ..ROW
    },
    SettingSpec {
        name: "auth-cache",
        section: SettingSection::Listening,
        kind: ValueKind::Duration { min: 0, max: TEN_YEARS },
        default: Is("200ms"),
        example: "1s",
        help: "With `auth = \"passthrough\"`: how long Larder uses a copy of a user's rules; it refreshes the copy twice as often. Larder sends commands that the copy cannot decide to the source as that user. `0s`: it sends every read.",
        ..ROW
    },
    SettingSpec {
        name: "item-prefix",
        section: SettingSection::Listening,
        kind: ValueKind::RoutePrefix,
        default: Is("/cache/v1"),
        optional: true,
        example: "/api/cache",
        help: "Path of the item API on the HTTP listeners: `POST`, `GET` and `DELETE` of \
               `/cache/v1/item`, and `GET /cache/v1/keys`. `off`: no item API. See \
               docs/coming-from-gcache.md.",
        ..ROW
    },
    SettingSpec {
        name: "item-min-ttl",
        section: SettingSection::Listening,
        kind: ValueKind::Duration { min: 0, max: TEN_YEARS },
        default: Is("5s"),
        example: "1s",
        help: "Shortest `ttl` that the item API accepts, in whole seconds. A shorter one is refused \
               with error 12. `0` allows items that expire at once.",
        ..ROW
    },
    SettingSpec {
        name: "item-max-ttl",
        section: SettingSection::Listening,
        kind: ValueKind::Duration { min: 1000, max: TEN_YEARS },
        default: Is("217d"),
        example: "30d",
        help: "Longest `ttl` that the item API accepts, in whole seconds. A longer one is refused \
               with error 12.",
        ..ROW
    },
    SettingSpec {
        name: "https",
        section: SettingSection::Tls,
        kind: ValueKind::Address,
        optional: true,
        many: true,
        example: ":8443",
        help: "Address for HTTP over TLS; clients choose HTTP/2 or HTTP/1.1 in the handshake. See docs/tls.md.",
        ..ROW
    },
    SettingSpec {
        name: "rediss",
        section: SettingSection::Tls,
        kind: ValueKind::Address,
        optional: true,
        many: true,
        per_listener: true,
        example: ":6390",
        help: "Address for the Redis protocol over TLS.",
        ..ROW
    },
    SettingSpec {
        name: "admin-tls",
        section: SettingSection::Tls,
        kind: ValueKind::Switch,
        default: Is("false"),
        example: "true",
        help: "Serves the admin listener over TLS only.",
        ..ROW
    },
    SettingSpec {
        name: "tls-cert",
        section: SettingSection::Tls,
        kind: ValueKind::Path,
        optional: true,
        many: true,
        example: "/etc/larder/tls.crt",
        help: "Certificate of the TLS listeners, PEM, followed by its intermediate certificates. \
               With several, Larder chooses by the host name of the client's handshake (SNI), \
               otherwise the first. Changed files are read again (`tls-reload-interval`).",
        ..ROW
    },
    SettingSpec {
        name: "tls-key",
        section: SettingSection::Tls,
        kind: ValueKind::Path,
        optional: true,
        many: true,
        example: "/etc/larder/tls.key",
        help: "Private key of the certificate, PEM. Give one per `tls-cert`, in the same order.",
        ..ROW
    },
    SettingSpec {
        name: "tls-client-ca",
        section: SettingSection::Tls,
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/clients-ca.crt",
        help: "Certificate authorities for clients' certificates, PEM. Clients of TLS listeners \
               then need a certificate that one of them issued (`tls-client-auth`).",
        ..ROW
    },
    SettingSpec {
        name: "tls-client-auth",
        section: SettingSection::Tls,
        kind: ValueKind::Choice(TlsClientAuth::NAMES),
        default: Is("required"),
        example: "optional",
        help: "Whether a client must show a certificate of `tls-client-ca`. `optional`: it may \
               connect without one, but one that it shows must be valid.",
        ..ROW
    },
    SettingSpec {
        name: "tls-client-user",
        section: SettingSection::Tls,
        kind: ValueKind::Choice(TlsClientUser::NAMES),
        default: Is("off"),
        example: "cn",
        help: "The field of a client's certificate that names its user (docs/users.md): `cn`, the \
               common name of the subject, or `san`, the first alternative name (DNS name, e-mail \
               address or URI). A client whose certificate names no user logs in like others.",
        ..ROW
    },
    SettingSpec {
        name: "tls-handshake-timeout",
        section: SettingSection::Tls,
        kind: ValueKind::Duration { min: 10, max: DAY },
        default: Is("10s"),
        example: "3s",
        help: "Maximum time that Larder waits for a client during a TLS handshake. Then it closes \
               the connection.",
        ..ROW
    },
    SettingSpec {
        name: "tls-reload-interval",
        section: SettingSection::Tls,
        kind: ValueKind::Duration { min: 100, max: DAY },
        default: Is("10s"),
        optional: true,
        example: "1m",
        help: "Interval between checks for changed files of certificates, keys and authorities. \
               Changed files are read again and apply to new connections. `off`: only SIGHUP reads \
               them again.",
        ..ROW
    },
    SettingSpec {
        name: "max-memory",
        section: SettingSection::Cache,
        kind: ValueKind::Memory { min: MIB },
        default: Computed("a quarter of the memory that the process may use"),
        per_group: true,
        live: true,
        example: "64MiB",
        help: "Maximum size of the memory tier, in bytes or as a percentage of the memory that the \
               process may use (of the machine, or the limit of its cgroup). At the limit, entries \
               are evicted. A named group must set its own.",
        ..ROW
    },
    SettingSpec {
        name: "max-keys",
        section: SettingSection::Cache,
        kind: ValueKind::Count { min: 1, max: u32::MAX as u64 },
        optional: true,
        per_group: true,
        also: &["PROXY_MAX_KEYS"],
        example: "1000",
        help: "Maximum number of entries, besides `max-memory`. At the limit, entries are evicted.",
        ..ROW
    },
    SettingSpec {
        name: "eviction",
        section: SettingSection::Cache,
        kind: ValueKind::Choice(eviction::NAMES),
        default: Is("s3fifo"),
        per_group: true,
        example: "sieve",
        help: "Which entries are evicted at the limit. `s3fifo`: new keys prove themselves in a small \
               queue whose share adapts; how often a key was read counts. `sieve`: SIEVE; whether a \
               key was read counts. `lru`: about the least recently read key (CLOCK).",
        ..ROW
    },
    SettingSpec {
        name: "shards",
        section: SettingSection::Cache,
        kind: ValueKind::Count { min: 1, max: MAX_SHARDS as u64 },
        optional: true,
        per_group: true,
        example: "16",
        help: "Number of shards of the memory tier, rounded up to a power of two. Each shard has \
               its own lock and needs 64KiB of `max-memory`. `off`: chosen from `max-memory` and \
               `max-keys`, at most 64 below 4GiB.",
        ..ROW
    },
    SettingSpec {
        name: "ttl",
        section: SettingSection::Freshness,
        kind: ValueKind::Duration { min: 1, max: TEN_YEARS },
        optional: true,
        per_group: true,
        per_prefix: true,
        also: &["PROXY_TTL_MS"],
        live: true,
        example: "10s",
        help: "Default lifetime of entries that are stored without one, and maximum lifetime of \
               entries that are fetched from the source.",
        ..ROW
    },
    SettingSpec {
        name: "ttl-jitter",
        section: SettingSection::Freshness,
        kind: ValueKind::Percent { max: 50 },
        default: Is("0%"),
        per_group: true,
        example: "10%",
        help: "Shortens each lifetime that `ttl` gives by a random share of up to this, so that \
               entries stored together do not expire together.",
        ..ROW
    },
    SettingSpec {
        name: "negative-ttl",
        section: SettingSection::Freshness,
        kind: ValueKind::Duration { min: 1, max: DAY },
        optional: true,
        per_group: true,
        per_prefix: true,
        live: true,
        example: "1s",
        help: "How long Larder caches that the source does not have a key.",
        ..ROW
    },
    SettingSpec {
        name: "stale-while-revalidate",
        section: SettingSection::Freshness,
        kind: ValueKind::Duration { min: 0, max: TEN_YEARS },
        default: Is("0ms"),
        optional: true,
        per_group: true,
        per_prefix: true,
        live: true,
        example: "30s",
        help: "How long after its lifetime a copy is served while one fetch in the background renews it. `0` or `off`: a read after the lifetime waits for the fetch.",
        ..ROW
    },
    SettingSpec {
        name: "stale-if-error",
        section: SettingSection::Freshness,
        kind: ValueKind::Duration { min: 0, max: TEN_YEARS },
        default: Is("30s"),
        optional: true,
        per_group: true,
        per_prefix: true,
        live: true,
        example: "5m",
        help: "How long after its lifetime a copy is served if the source fails or is lost. `0` or `off`: the read gets the error.",
        ..ROW
    },
    SettingSpec {
        name: "soft-timeout",
        section: SettingSection::Freshness,
        kind: ValueKind::Duration { min: 1, max: DAY },
        default: Is("100ms"),
        optional: true,
        per_group: true,
        per_prefix: true,
        live: true,
        example: "20ms",
        help: "How long a read waits for a fetch before it gets the stale copy that \
               `stale-if-error` allows. The fetch continues and fills the tier. `off`: the read \
               waits up to `source-timeout`.",
        ..ROW
    },
    SettingSpec {
        name: "refresh-ahead",
        section: SettingSection::Freshness,
        kind: ValueKind::RefreshAhead,
        optional: true,
        per_group: true,
        per_prefix: true,
        live: true,
        example: "20%",
        help: "Renews a copy in the background when it is read shortly before the end of its \
               lifetime. `20%`: in the last fifth of the lifetime. `xfetch`: at a random time near \
               the end, earlier for copies whose fetch took long. `off`: never.",
        ..ROW
    },
    SettingSpec {
        name: "max-stale",
        section: SettingSection::Freshness,
        kind: ValueKind::Duration { min: 0, max: TEN_YEARS },
        optional: true,
        per_group: true,
        per_prefix: true,
        live: true,
        example: "10m",
        help: "Maximum time that a copy is served after its lifetime, whatever \
               `stale-while-revalidate`, `stale-if-error` and headers of the source allow. `off`: \
               no such limit.",
        ..ROW
    },
    SettingSpec {
        name: "retry-throttle",
        section: SettingSection::Freshness,
        kind: ValueKind::Duration { min: 0, max: DAY },
        default: Is("1s"),
        optional: true,
        per_group: true,
        per_prefix: true,
        live: true,
        example: "5s",
        help: "After a failed fetch, how long a key with a usable stale copy is not fetched again. \
               `0` or `off`: each read tries again.",
        ..ROW
    },
    SettingSpec {
        name: "mode",
        section: SettingSection::Freshness,
        kind: ValueKind::Choice(TierMode::NAMES),
        default: Is("cache"),
        per_group: true,
        per_prefix: true,
        live: true,
        example: "observe",
        help: "How the memory tier treats keys. `cache`: stores and serves them. `observe`: \
               stores them and counts hits and misses, but the source answers each read. `deny`: \
               neither stores nor serves them. See docs/observe.md.",
        ..ROW
    },
    SettingSpec {
        name: "inspect",
        section: SettingSection::Freshness,
        kind: ValueKind::Share,
        optional: true,
        per_group: true,
        example: "0.1%",
        help: "Compares this share of hits with the source a moment later and counts older copies \
               in `/metrics` (`larder_inspected_…`). Each comparison costs one fetch. At most four \
               run at a time per thread, and none while the source fails. Cached replies are not \
               compared.",
        ..ROW
    },
    SettingSpec {
        name: "source",
        section: SettingSection::Source,
        kind: ValueKind::Source,
        default: Is("none:"),
        per_group: true,
        also: &["REDIS_HOST", "REDIS_PORT"],
        example: "redis://127.0.0.1:6379/0",
        help: "URL of the source, which answers misses and takes writes: `none:`, `table:FILE` (docs/tables.md), `disk:DIR` (docs/disk-store.md), `redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]`, `rediss://…` (TLS; `?ca=FILE&cert=FILE&key=FILE&insecure=true`), `unix:///PATH[?db=N]`, `redis+cluster://HOST[:PORT],…[?read-from=replica]` or `redis+sentinel://HOST[:PORT],…/SERVICE[/DB][?sentinel-user=USER&sentinel-password=PASSWORD]` (and `rediss+…`), `http://HOST[:PORT]/PATH/{key}` or `https://…[#ca=FILE&cert=FILE&key=FILE&insecure=true]` (docs/http-origin.md), `demo:[?delay=DURATION&fail=SHARE&absent=SHARE]` (generated answers).",
        ..ROW
    },
    SettingSpec {
        name: "coherence",
        section: SettingSection::Source,
        kind: ValueKind::Choice(Coherence::NAMES),
        default: Is("coherent"),
        per_group: true,
        example: "ttl",
        help: "How copies of a Redis source are kept up to date. `coherent`: Redis announces every \
               change (`CLIENT TRACKING`); data without announcements is not cached. While Redis cannot be reached, copies are served for \
               `stale-if-error`, or for the rest of their `ttl` where that is longer. `ttl`: copies \
               are as old as `ttl` allows. `off`: nothing is cached. See docs/coherence.md.",
        ..ROW
    },
    SettingSpec {
        name: "tracking-prefixes",
        section: SettingSection::Source,
        kind: ValueKind::Prefix,
        optional: true,
        many: true,
        per_group: true,
        example: "user:",
        help: "With `coherence` `coherent`: Redis announces every change of keys with these \
               prefixes (`BCAST`), and only such keys are cached. Otherwise Redis remembers each \
               key that was read. `*`: every key. No prefix may begin with another.",
        ..ROW
    },
    SettingSpec {
        name: "cache-replies",
        section: SettingSection::Source,
        kind: ValueKind::Size { min: 64, max: 1 << 30 },
        default: Is("256KiB"),
        optional: true,
        per_group: true,
        example: "1MiB",
        help: "With a Redis source: caches replies of commands that read one key (HGET, LRANGE, \
               ZRANGE …), up to this size each. `off`: caches values only. See \
               docs/reference/redis.md.",
        ..ROW
    },
    SettingSpec {
        name: "source-timeout",
        section: SettingSection::Source,
        kind: ValueKind::Duration { min: 1, max: DAY },
        default: Is("1s"),
        per_group: true,
        per_prefix: true,
        example: "250ms",
        help: "Maximum time of one fetch or write, including the wait for a connection. Under a \
               prefix it applies to an HTTP or `demo:` source only: fetches from Redis share \
               connections and use the value of the group.",
        ..ROW
    },
    SettingSpec {
        name: "source-slow-timeout",
        section: SettingSection::Source,
        kind: ValueKind::Duration { min: 1, max: DAY },
        default: Is("1m"),
        example: "10m",
        help: "Maximum time of forwarded commands that can be slow at Redis: scripts and functions, \
               KEYS, SORT, LCS, and commands that Redis lists as `@dangerous`. They use a separate \
               connection per thread. Values below `source-timeout` are raised to it.",
        ..ROW
    },
    SettingSpec {
        name: "source-connect-timeout",
        section: SettingSection::Source,
        kind: ValueKind::Duration { min: 1, max: DAY },
        default: Is("500ms"),
        optional: true,
        per_group: true,
        example: "100ms",
        help: "With an HTTP source: maximum time of one attempt to connect to one of its addresses, \
               within `source-timeout`. `off`: only `source-timeout` applies.",
        ..ROW
    },
    SettingSpec {
        name: "source-first-byte-timeout",
        section: SettingSection::Source,
        kind: ValueKind::Duration { min: 1, max: DAY },
        optional: true,
        per_group: true,
        example: "200ms",
        help: "With an HTTP source: maximum time from sending the request to the head of the \
               response, within `source-timeout`. The rest of `source-timeout` is left for the \
               body. `off`: only `source-timeout` applies.",
        ..ROW
    },
    SettingSpec {
        name: "source-headers",
        section: SettingSection::Source,
        kind: ValueKind::Header,
        optional: true,
        many: true,
        per_group: true,
        example: "X-Api-Key: @/run/secrets/api-key",
        help: "With an HTTP source: header fields of each request, `Name: value`, or `Name: @FILE` \
               to read the value from a file at the start. The values are secrets and are never \
               shown.",
        ..ROW
    },
    SettingSpec {
        name: "source-vary",
        section: SettingSection::Source,
        kind: ValueKind::HeaderName,
        optional: true,
        many: true,
        per_group: true,
        example: "accept",
        help: "With an HTTP source: request header fields that a response may name in `Vary` and \
               still be cached, because Larder always sends the same value. `accept-encoding` is \
               always included. A response that varies with another field is not cached.",
        ..ROW
    },
    SettingSpec {
        name: "source-writes",
        section: SettingSection::Source,
        kind: ValueKind::Choice(&["refuse", "through"]),
        default: Is("refuse"),
        per_group: true,
        example: "through",
        help: "With an HTTP source: `refuse` answers every write with an error. `through` sends it \
               to the API as `PUT` or `DELETE` of the key's URL and removes the copy.",
        ..ROW
    },
    SettingSpec {
        name: "source-http2",
        section: SettingSection::Source,
        kind: ValueKind::Switch,
        default: Is("true"),
        per_group: true,
        example: "false",
        help: "With an `https://` source: offers HTTP/2, where one connection per thread carries up \
               to 100 requests at a time. `false`: HTTP/1.1 only, for example to spread requests \
               over the servers behind one address.",
        ..ROW
    },
    SettingSpec {
        name: "source-max-in-flight",
        section: SettingSection::Source,
        kind: ValueKind::Count { min: 1, max: 1 << 20 },
        default: Is("4096"),
        example: "100",
        help: "Maximum number of fetches in flight at one server, including those that wait, over \
               all threads and all groups with that server. Beyond it, a miss fails at once.",
        ..ROW
    },
    SettingSpec {
        name: "source-adaptive",
        section: SettingSection::Source,
        kind: ValueKind::Switch,
        default: Is("true"),
        example: "false",
        help: "Reduces the number of concurrent fetches, to no less than 16, when the server's \
               latency rises above twice its best. Other fetches wait up to 250ms, or a quarter of \
               `source-timeout` if that is less, and then fail. `false`: only \
               `source-max-in-flight` limits them. See docs/slow-sources.md.",
        ..ROW
    },
    SettingSpec {
        name: "source-breaker",
        section: SettingSection::Source,
        kind: ValueKind::Percent { max: 100 },
        default: Is("75%"),
        optional: true,
        example: "50%",
        help: "Opens the circuit breaker when this share of the fetches within \
               `source-breaker-window` failed (at least 10), or when at least 10 in a row failed \
               over a tenth of it. Misses then get stale copies or an error at once, until the \
               source answers probes again. `off`: no breaker. A cluster has none. See \
               docs/slow-sources.md.",
        ..ROW
    },
    SettingSpec {
        name: "source-breaker-window",
        section: SettingSection::Source,
        kind: ValueKind::Duration { min: 1_000, max: 3_600_000 },
        default: Is("10s"),
        example: "30s",
        help: "Time over which `source-breaker` counts fetches.",
        ..ROW
    },
    SettingSpec {
        name: "source-connections",
        section: SettingSection::Source,
        kind: ValueKind::Count { min: 1, max: 64 },
        default: Is("1"),
        example: "4",
        help: "Connections per thread to a source. Requests are pipelined on them.",
        ..ROW
    },
    SettingSpec {
        name: "durability",
        section: SettingSection::Store,
        kind: ValueKind::Durability,
        default: Is("interval:100ms"),
        per_group: true,
        example: "always",
        help: "When an acknowledged write to a `disk:` source is on stable storage. `always`: \
               before the acknowledgement (writes that wait together share one sync). \
               `interval:100ms`: at most this long afterwards. `os`: when the operating system \
               writes it back. If only the process ends (SIGKILL), nothing is lost. See \
               docs/disk-store.md.",
        ..ROW
    },
    SettingSpec {
        name: "store-write-buffer",
        section: SettingSection::Store,
        kind: ValueKind::Size { min: MIB, max: 4 << 30 },
        default: Is("64MiB"),
        per_group: true,
        example: "16MiB",
        help: "Size of the buffer in which a disk store collects writes before it writes a sorted \
               file. Up to three more full buffers may wait. This memory is outside `max-memory`: \
               count four times this size.",
        ..ROW
    },
    SettingSpec {
        name: "store-block-cache",
        section: SettingSection::Store,
        kind: ValueKind::Memory { min: MIB },
        default: Computed("a sixteenth of the memory that the process may use, at least 32MiB"),
        per_group: true,
        example: "128MiB",
        help: "Size of a disk store's cache for blocks of its files, in bytes or as a percentage of \
               the memory that the process may use. This memory is outside `max-memory`.",
        ..ROW
    },
    SettingSpec {
        name: "store-compression",
        section: SettingSection::Store,
        kind: ValueKind::Choice(Compression::NAMES),
        default: Is("lz4"),
        per_group: true,
        example: "none",
        help: "Compression of a disk store's older levels. Fixed when the store is created: to \
               change it, use `larder store backup` and `restore`.",
        ..ROW
    },
    SettingSpec {
        name: "store-threads",
        section: SettingSection::Store,
        kind: ValueKind::Count { min: 1, max: 256 },
        default: Computed("twice the cores that the process may use, at most 16"),
        per_group: true,
        example: "3",
        help: "Reader threads of a disk store. It also has one thread that writes, one that syncs, \
               and two that flush and compact.",
        ..ROW
    },
    SettingSpec {
        name: "store-max-waiting",
        section: SettingSection::Store,
        kind: ValueKind::Size { min: MIB, max: 16 << 30 },
        default: Is("64MiB"),
        per_group: true,
        example: "8MiB",
        help: "Maximum size of the writes that wait for the disk, keys and values together. Beyond \
               it, a write fails at once. A single larger write waits alone.",
        ..ROW
    },
    SettingSpec {
        name: "peers",
        section: SettingSection::Peers,
        kind: ValueKind::PeerEntry,
        optional: true,
        many: true,
        also: &["PEERS_SET"],
        example: "10.0.0.1:8080",
        help: "The nodes that share a cache, including this one, as `host:port` or `http://host:port`. Each key has one owner among them, which fetches it for all. Give every node the same list, or a way to find the nodes: `dns:host:port` (every address of this name), `dns+srv:name` (every target of its SRV records), `gossip:host:port` (all nodes that the node at this address knows), `pods:selector:port` (the ready pods of this namespace that the label selector chooses). `;zone=NAME` after an item names the zone of its nodes (`peer-zone`). See docs/peers.md.",
        ..ROW
    },
    SettingSpec {
        name: "peers-refresh",
        section: SettingSection::Peers,
        kind: ValueKind::Duration { min: 100, max: DAY },
        default: Is("10s"),
        example: "1s",
        help: "With `dns:` and `dns+srv:` in `peers`: time between two look-ups, plus or minus a quarter. With `gossip:`: time between two attempts to reach the named nodes. With `pods:`: how long a pod that is no longer ready stays on the ring.",
        ..ROW
    },
    SettingSpec {
        name: "peers-api-server",
        section: SettingSection::Peers,
        kind: ValueKind::Endpoint,
        default: Computed("`KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`, which every pod has"),
        optional: true,
        example: "10.96.0.1:443",
        help: "The Kubernetes API server that lists the pods (`peers` with `pods:`). Larder always uses TLS for it.",
        ..ROW
    },
    SettingSpec {
        name: "peers-service-account",
        section: SettingSection::Peers,
        kind: ValueKind::Path,
        default: Is("/var/run/secrets/kubernetes.io/serviceaccount"),
        example: "/run/larder/account",
        help: "Folder of the pod's service account, with `token`, `ca.crt` and `namespace`. Larder reads the first two again for each connection.",
        ..ROW
    },
    SettingSpec {
        name: "peers-dns-server",
        section: SettingSection::Peers,
        kind: ValueKind::Address,
        default: Computed("the first `nameserver` of `/etc/resolv.conf`"),
        optional: true,
        example: "10.96.0.10:53",
        help: "Name server for SRV records (`dns+srv:`). The system's resolver looks up other \
               names.",
        ..ROW
    },
    SettingSpec {
        name: "peer-gossip",
        section: SettingSection::Peers,
        kind: ValueKind::Address,
        default: Computed("the address of `peer-self` with port 7946, or all addresses if that is a name"),
        optional: true,
        example: "10.0.0.1:7946",
        help: "UDP address that this node listens on for gossip (`peers` with `gossip:`). Other nodes reach it at the host of `peer-self` and this port. With `peer-secret`, Larder ignores packets that do not show the secret.",
        ..ROW
    },
    SettingSpec {
        name: "peer-self",
        section: SettingSection::Peers,
        kind: ValueKind::Peer,
        default: Computed(
            "the address of `http`, if it is one and names a host; with `pods:` the variable `POD_IP` and the port of the pods",
        ),
        optional: true,
        also: &["PEERS_SELF"],
        example: "10.0.0.1:8080",
        help: "This node's name, as `peers` of the other nodes has it. With `dns:` it is the address that they find, with `dns+srv:` the name or the address, with `pods:` the address of the pod.",
        ..ROW
    },
    SettingSpec {
        name: "peer-zone",
        section: SettingSection::Peers,
        kind: ValueKind::Zone,
        default: Computed("the zone of this node in `peers`"),
        optional: true,
        example: "eu-1a",
        help: "The zone of this node. A read of a key whose owner is in another zone goes to one node of this zone, which asks the owner and keeps a copy for `hot-copy-ttl`. The nodes know each other's zones from `peers` (`host:port;zone=eu-1a`). Not together with `peer-bounded-load`.",
        ..ROW
    },
    SettingSpec {
        name: "peer-bounded-load",
        section: SettingSection::Peers,
        kind: ValueKind::LoadFactor,
        optional: true,
        example: "1.25",
        help: "Bounds the reads in flight at the owner of a key, as a multiple of the mean of all nodes. If this node has more reads in flight there, it reads the key from the next node on the ring. Keys may then be fetched more than once. Not together with `peer-zone`.",
        ..ROW
    },
    SettingSpec {
        name: "peer-name",
        section: SettingSection::Peers,
        kind: ValueKind::Choice(PeerName::NAMES),
        default: Is("address"),
        example: "url",
        help: "How a node is named on the ring: `address` is `host:port`, like groupcache-go v3. \
               `url` is `http://host:port`, like mailgun's and the original groupcache.",
        ..ROW
    },
    SettingSpec {
        name: "peer-hash",
        section: SettingSection::Peers,
        kind: ValueKind::Choice(PeerHash::NAMES),
        default: Is("fnv1"),
        example: "crc32",
        help: "Hash function of the ring: `fnv1` like groupcache-go v3 and mailgun's groupcache, \
               `crc32` like the original groupcache.",
        ..ROW
    },
    SettingSpec {
        name: "peer-transport",
        section: SettingSection::Peers,
        kind: ValueKind::Choice(PeerTransport::NAMES),
        default: Is("http"),
        example: "grpc",
        help: "Protocol of this node's requests to its peers: `http` for groupcache's messages, \
               `grpc` for Larder nodes only, whose requests then share connections. A node answers \
               both on its HTTP listener.",
        ..ROW
    },
    SettingSpec {
        name: "peer-shared",
        section: SettingSection::Peers,
        kind: ValueKind::Switch,
        default: Is("true"),
        per_group: true,
        example: "false",
        help: "Whether the group's keys have owners among `peers`. Groups with a `disk:` or \
               `table:` source are never shared.",
        ..ROW
    },
    SettingSpec {
        name: "hot-copy-ttl",
        section: SettingSection::Peers,
        kind: ValueKind::Duration { min: 0, max: DAY },
        default: Is("10s"),
        example: "1s",
        help: "Maximum lifetime of a copy of another node's key. `0`: no copies; every read of such a key goes to its owner.",
        ..ROW
    },
    SettingSpec {
        name: "hot-copy-after",
        section: SettingSection::Peers,
        kind: ValueKind::Count { min: 1, max: 100 },
        default: Is("2"),
        example: "10",
        help: "Number of reads of another node's key within ten seconds after which this node keeps \
               a copy.",
        ..ROW
    },
    SettingSpec {
        name: "peer-secret",
        section: SettingSection::Peers,
        kind: ValueKind::Secret,
        optional: true,
        example: "correct horse",
        help: "Secret that nodes send to each other, as `Authorization: Bearer …`. Without it, \
               every client that reaches the HTTP listener can use the routes between nodes \
               (`/_groupcache/`, gRPC). Go nodes need a client that sends the header.",
        ..ROW
    },
    SettingSpec {
        name: "peer-secret-file",
        section: SettingSection::Peers,
        kind: ValueKind::Path,
        optional: true,
        example: "/run/secrets/larder-peers",
        help: "File with the `peer-secret`, in one line, like `password-file`.",
        ..ROW
    },
    SettingSpec {
        name: "peer-tls",
        section: SettingSection::Peers,
        kind: ValueKind::Switch,
        default: Is("false"),
        example: "true",
        help: "Uses TLS between nodes, at their `https` addresses, with the first `tls-cert` as the \
               node's certificate. Only nodes with a certificate of `peer-tls-ca` are served. Set \
               it on every node.",
        ..ROW
    },
    SettingSpec {
        name: "peer-tls-ca",
        section: SettingSection::Peers,
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/nodes-ca.crt",
        help: "Certificate authorities for the nodes' certificates, PEM. Without it, Larder uses those of `tls-client-ca`; then every client with a certificate counts as a node.",
        ..ROW
    },
    SettingSpec {
        name: "peer-tls-name",
        section: SettingSection::Peers,
        kind: ValueKind::Hostname,
        optional: true,
        example: "larder.internal",
        help: "Host name in the certificate of every node. Without it, a certificate must be for \
               the host of the node's address, which is an IP address for nodes found by `dns:`.",
        ..ROW
    },
    SettingSpec {
        name: "peer-handover",
        section: SettingSection::Peers,
        kind: ValueKind::Size { min: 0, max: 16 << 30 },
        default: Is("64MiB"),
        example: "1GiB",
        help: "Number of entries that a node passes on to each other node when it leaves, and takes \
               over from each when it starts, the hottest first. `0`: none.",
        ..ROW
    },
    SettingSpec {
        name: "peer-connect-timeout",
        section: SettingSection::Peers,
        kind: ValueKind::Duration { min: 1, max: DAY },
        default: Is("250ms"),
        example: "50ms",
        help: "Maximum time of one attempt to connect to a peer. A fetch from a peer is bounded by \
               `source-timeout`.",
        ..ROW
    },
    SettingSpec {
        name: "peer-fallback-limit",
        section: SettingSection::Peers,
        kind: ValueKind::Count { min: 0, max: 1 << 20 },
        default: Is("64"),
        example: "8",
        help: "Maximum number of fetches per thread from the source for keys whose owner cannot be \
               reached. Beyond it, such a miss fails at once.",
        ..ROW
    },
    SettingSpec {
        name: "replica-of",
        section: SettingSection::Replication,
        kind: ValueKind::Primary,
        optional: true,
        example: "redis://10.0.0.1:6380",
        help: "Makes this process a replica of the Larder at this address of the Redis protocol: it \
               copies the entries of all groups without a source, follows their changes, and \
               refuses writes. `REPLICAOF` changes it at run time.",
        ..ROW
    },
    SettingSpec {
        name: "replication-secret",
        section: SettingSection::Replication,
        kind: ValueKind::Secret,
        optional: true,
        example: "correct horse",
        help: "Secret that a replica sends to its primary. Both need the same one. Without it, \
               every client that can authenticate at the Redis listener (`password`) can copy all \
               entries.",
        ..ROW
    },
    SettingSpec {
        name: "replication-secret-file",
        section: SettingSection::Replication,
        kind: ValueKind::Path,
        optional: true,
        example: "/run/secrets/larder-replication",
        help: "File with the `replication-secret`, in one line, like `password-file`.",
        ..ROW
    },
    SettingSpec {
        name: "replication-backlog",
        section: SettingSection::Replication,
        kind: ValueKind::Size { min: 64 * KIB, max: 16 << 30 },
        default: Is("16MiB"),
        example: "256MiB",
        help: "Size per group of a primary's log of changed keys (without values) for replicas that \
               are behind. A replica that is further behind gets a full copy. The log takes memory \
               once a replica has connected.",
        ..ROW
    },
    SettingSpec {
        name: "replication-mode",
        section: SettingSection::Replication,
        kind: ValueKind::ReplicationMode,
        default: Is("stream"),
        example: "pull:20s",
        help: "How a replica follows its primary: `stream` over one connection that stays, or `pull:20s` by fetching the changes every 20 seconds.",
        ..ROW
    },
    SettingSpec {
        name: "replica-writes",
        section: SettingSection::Replication,
        kind: ValueKind::Choice(ReplicaWrites::NAMES),
        default: Is("refuse"),
        example: "forward",
        help: "Handling of writes by a replica's clients. `refuse`: answers with an error. \
               `forward`: sends them to the primary and passes the reply on. Writes over HTTP are \
               forwarded if `primary-http` is set.",
        ..ROW
    },
    SettingSpec {
        name: "primary-http",
        section: SettingSection::Replication,
        kind: ValueKind::Peer,
        optional: true,
        example: "10.0.0.1:8080",
        help: "HTTP address of the primary that `replica-of` names. With `replica-writes = \
               \"forward\"`, writes over HTTP are sent there. Without it, they are refused.",
        ..ROW
    },
    SettingSpec {
        name: "max-key",
        section: SettingSection::Limits,
        kind: ValueKind::Size { min: 1, max: MAX_KEY },
        default: Is("64KiB"),
        example: "250B",
        help: "Maximum length of a key.",
        ..ROW
    },
    SettingSpec {
        name: "max-value",
        section: SettingSection::Limits,
        kind: ValueKind::Size { min: 1, max: MAX_VALUE },
        default: Is("512MiB"),
        example: "1MiB",
        help: "Maximum size of a value.",
        ..ROW
    },
    SettingSpec {
        name: "max-body",
        section: SettingSection::Limits,
        kind: ValueKind::Size { min: 1, max: 1 << 30 },
        default: Computed("max-value"),
        example: "2MiB",
        help: "Maximum size of the body of an HTTP request.",
        ..ROW
    },
    SettingSpec {
        name: "max-document-query",
        section: SettingSection::Limits,
        kind: ValueKind::Size { min: 1, max: 1 << 30 },
        default: Is("1MiB"),
        example: "4MiB",
        help: "Maximum size of a JSON document that a path with filters, slices, several selectors \
               or several `..` may read. Such a path builds a tree of up to a hundred times the document's size for a \
               moment. Other paths have no such limit.",
        ..ROW
    },
    SettingSpec {
        name: "max-headers",
        section: SettingSection::Limits,
        // hyper refuses a smaller read buffer than 8 KiB.
        kind: ValueKind::Size { min: 8 * KIB, max: MIB },
        default: Is("128KiB"),
        example: "16KiB",
        help: "Maximum size of the head of an HTTP request: the request line, which holds the key, \
               and the headers.",
        ..ROW
    },
    SettingSpec {
        name: "max-pipeline",
        section: SettingSection::Limits,
        kind: ValueKind::Count { min: 1, max: 1 << 20 },
        default: Is("1024"),
        example: "128",
        help: "Maximum number of commands of one Redis connection that wait for the source. At the \
               limit, Larder stops reading from the connection until one is answered.",
        ..ROW
    },
    SettingSpec {
        name: "max-buffers",
        section: SettingSection::Limits,
        kind: ValueKind::Memory { min: MIB },
        default: Computed("an eighth of the memory that the process may use, at least 32MiB"),
        example: "256MiB",
        help: "Byte budget for all buffers together, besides `max-memory`: unprocessed input, \
               unsent replies and responses, push messages, and traffic with sources. In bytes or \
               as a percentage of the memory that the process may use. A command or body that \
               cannot fit is refused. At the limit, the connections that hold the most are closed. \
               See docs/operations.md.",
        ..ROW
    },
    SettingSpec {
        name: "max-backlog",
        section: SettingSection::Limits,
        kind: ValueKind::Size { min: 64 * KIB, max: 16 << 30 },
        default: Is("32MiB"),
        example: "8MiB",
        help: "Byte budget for undelivered push messages (messages and invalidations) of one Redis \
               client. At the limit, Larder closes the connection and INFO counts it.",
        ..ROW
    },
    SettingSpec {
        name: "tracking-table-max-keys",
        section: SettingSection::Limits,
        kind: ValueKind::Count { min: 0, max: 1 << 32 },
        default: Is("1000000"),
        live: true,
        example: "50000",
        help: "Maximum number of keys in the tracking table, used when Larder itself does the tracking (CLIENT TRACKING without a Redis source). At the limit, Larder invalidates some copies of clients. 0: no limit.",
        ..ROW
    },
    SettingSpec {
        name: "max-connections",
        section: SettingSection::Limits,
        kind: ValueKind::Count { min: 1, max: 1 << 20 },
        default: Is("10000"),
        example: "500",
        help: "Maximum number of client connections, over all listeners. At the limit, new \
               connections are closed at once.",
        ..ROW
    },
    SettingSpec {
        name: "idle-timeout",
        section: SettingSection::Limits,
        kind: ValueKind::Duration { min: 100, max: TEN_YEARS },
        optional: true,
        live: true,
        example: "5m",
        help: "Closes a connection that has been idle for this long.",
        ..ROW
    },
    SettingSpec {
        name: "header-timeout",
        section: SettingSection::Limits,
        kind: ValueKind::Duration { min: 100, max: DAY },
        default: Is("10s"),
        live: true,
        example: "5s",
        help: "Maximum time from the first byte of the head of an HTTP request, or of a Redis \
               command, to the last.",
        ..ROW
    },
    SettingSpec {
        name: "max-queue-delay",
        section: SettingSection::Limits,
        kind: ValueKind::Duration { min: 1, max: DAY },
        optional: true,
        example: "20ms",
        help: "Maximum time that requests wait for a busy core. Beyond half of it, Larder refuses misses. Beyond all of it, Larder refuses every request for entries (HTTP 503, `-ERR overloaded`). The other requests then get their answers in time. Short bursts may wait up to 100 ms. See docs/overload.md.",
        ..ROW
    },
    SettingSpec {
        name: "throttle",
        section: SettingSection::Throttle,
        kind: ValueKind::Rate,
        optional: true,
        live: true,
        example: "1000/s",
        help: "Maximum requests per second per client address; excess requests get HTTP 429 (503 on \
               the compatibility routes) or `-ERR throttled`. See docs/limits.md.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-burst",
        section: SettingSection::Throttle,
        kind: ValueKind::Count { min: 1, max: u32::MAX as u64 },
        default: Computed("one second's worth"),
        live: true,
        example: "5000",
        help: "Maximum requests at once per client address after a pause.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-user",
        section: SettingSection::Throttle,
        kind: ValueKind::Rate,
        optional: true,
        live: true,
        example: "2000/s",
        help: "Maximum requests per second per user, over all addresses. It does not apply to \
               clients that have not logged in.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-user-burst",
        section: SettingSection::Throttle,
        kind: ValueKind::Count { min: 1, max: u32::MAX as u64 },
        default: Computed("one second's worth"),
        live: true,
        example: "5000",
        help: "Maximum requests at once per user after a pause.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-commands",
        section: SettingSection::Throttle,
        kind: ValueKind::CommandRate,
        optional: true,
        many: true,
        live: true,
        example: "@write=100/s",
        help: "Maximum requests per second per client address for some commands: `NAME=N/s` or \
               `@CATEGORY=N/s`, named as in `deny-commands`. A command counts against every entry \
               that lists it. HTTP requests for keys count as `@read` or `@write`.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-prefixes",
        section: SettingSection::Throttle,
        kind: ValueKind::PrefixRate,
        optional: true,
        many: true,
        live: true,
        example: "report:=50/s",
        help: "Maximum requests per second for keys with a prefix, over all clients: `PREFIX=N/s`. \
               The longest matching prefix counts. A command counts once per key.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-headers",
        section: SettingSection::Throttle,
        kind: ValueKind::Switch,
        default: Is("false"),
        live: true,
        example: "true",
        help: "Adds `RateLimit` and `RateLimit-Policy` to every HTTP response to a limited request, \
               not only to refusals. Hits then cost more, because hyper answers them.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-table",
        section: SettingSection::Throttle,
        kind: ValueKind::Count { min: 64, max: 1 << 24 },
        default: Is("65536"),
        live: true,
        example: "1000000",
        help: "Number of entries in the table of each limit per address or user, 8 bytes each. A \
               client has two entries and shares its limit with clients that have the same two. \
               About 100 times the number of busy clients is enough.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-total",
        section: SettingSection::Throttle,
        kind: ValueKind::Rate,
        optional: true,
        live: true,
        example: "50000/s",
        help: "Maximum requests per second of all clients together.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-total-burst",
        section: SettingSection::Throttle,
        kind: ValueKind::Count { min: 1, max: u32::MAX as u64 },
        default: Computed("one second's worth"),
        live: true,
        example: "60000",
        help: "Maximum requests at once of all clients together after a pause.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-admin",
        section: SettingSection::Throttle,
        kind: ValueKind::Rate,
        default: Computed("a tenth of throttle; none without it"),
        optional: true,
        live: true,
        example: "10/s",
        help: "Maximum requests per second per client address to the admin and stats routes.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-admin-burst",
        section: SettingSection::Throttle,
        kind: ValueKind::Count { min: 1, max: u32::MAX as u64 },
        default: Computed("one second's worth"),
        live: true,
        example: "20",
        help: "Maximum requests at once per client address to the admin and stats routes after a \
               pause.",
        ..ROW
    },
    SettingSpec {
        name: "threads",
        section: SettingSection::Process,
        kind: ValueKind::Count { min: 1, max: 1024 },
        default: Computed("the cores that the process may use"),
        example: "3",
        help: "Threads that serve connections.",
        ..ROW
    },
    SettingSpec {
        name: "pin",
        section: SettingSection::Process,
        kind: ValueKind::Switch,
        default: Is("false"),
        example: "true",
        help: "Keeps each thread that serves connections on a core of its own, of those that the process \
               may use. For machines that do nothing else: the kernel can no longer move a thread away from \
               a busy core. Linux only.",
        ..ROW
    },
    SettingSpec {
        name: "transport",
        section: SettingSection::Process,
        kind: ValueKind::Choice(Transport::NAMES),
        default: Is("epoll"),
        example: "io-uring",
        help: "How client connections without TLS are read and written: `epoll`, or `io-uring`, with which one \
               system call serves many connections. `io-uring` takes less CPU when each thread has many \
               connections that send one request at a time, and more with a single connection. Where the \
               kernel refuses it, Larder logs a warning and uses `epoll`. Linux only. See docs/performance.md.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-file",
        section: SettingSection::Snapshots,
        kind: ValueKind::Path,
        optional: true,
        example: "/var/lib/larder/snapshot",
        help: "File for snapshots of the memory tiers. A snapshot is written when the process ends \
               (SIGTERM, SIGINT, within `grace`), every `snapshot-interval`, and on demand (SAVE, \
               BGSAVE, `POST /v1/snapshot`). It replaces the old file when it is complete. \
               `s3://BUCKET/KEY` is an object in S3-like storage. See docs/snapshots.md.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-interval",
        section: SettingSection::Snapshots,
        kind: ValueKind::Duration { min: 1000, max: TEN_YEARS },
        optional: true,
        example: "15m",
        help: "Time from the start of one snapshot to the start of the next. A snapshot that takes \
               longer delays the next one.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-compression",
        section: SettingSection::Snapshots,
        kind: ValueKind::Choice(SnapshotCompression::NAMES),
        default: Is("lz4"),
        example: "zstd",
        help: "Compression of snapshots. `zstd` makes smaller files and takes more time than `lz4`.",
        ..ROW
    },
    SettingSpec {
        name: "restore",
        section: SettingSection::Snapshots,
        kind: ValueKind::Switch,
        default: Is("false"),
        example: "true",
        help: "Loads `snapshot-file` at the start, if it exists. Larder serves requests meanwhile; \
               `/readyz` answers 503 until the load is complete. Entries that have expired since \
               are dropped. A damaged file stops the start.",
        ..ROW
    },
    SettingSpec {
        name: "restore-damaged",
        section: SettingSection::Snapshots,
        kind: ValueKind::Choice(&["refuse", "salvage"]),
        default: Is("refuse"),
        example: "salvage",
        help: "How a start with `restore` treats a damaged `snapshot-file`. `refuse`: the start fails and names the damaged place. `salvage`: it loads the blocks before the damage.",
        ..ROW
    },
    SettingSpec {
        name: "restore-verify-rate",
        section: SettingSection::Snapshots,
        kind: ValueKind::Count { min: 1, max: 10_000_000 },
        default: Is("10000"),
        example: "50000",
        help: "Keys per second that a start with `restore` reads again from Redis sources with \
               `coherence = coherent`, the most-used ones first. A restored copy is served after it \
               was read again; before that, its key is a miss. See docs/snapshots.md.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-s3-endpoint",
        section: SettingSection::Snapshots,
        kind: ValueKind::Path,
        optional: true,
        example: "https://s3.eu-central-1.amazonaws.com",
        help: "URL of the storage of an `s3://` `snapshot-file`, without the bucket. Default: the \
               variable AWS_ENDPOINT_URL, or Amazon's address of the region.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-s3-region",
        section: SettingSection::Snapshots,
        kind: ValueKind::Path,
        optional: true,
        example: "eu-central-1",
        help: "Region of the storage of an `s3://` `snapshot-file`. Default: the variable \
               AWS_REGION, or us-east-1.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-s3-credentials",
        section: SettingSection::Snapshots,
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/s3-credentials",
        help: "File with the key pair for an `s3://` `snapshot-file`, in the format of Amazon's \
               tools (profile `default`, or AWS_PROFILE). It is read for each snapshot. Default: \
               AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a web identity \
               (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN), or the credentials of the container or \
               machine at Amazon.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-s3-ca",
        section: SettingSection::Snapshots,
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/ca.pem",
        help: "PEM file of the certificate authorities for the storage's certificate. Default: the \
               authorities that Mozilla trusts.",
        ..ROW
    },
    SettingSpec {
        name: "data-dir",
        section: SettingSection::Process,
        kind: ValueKind::Path,
        optional: true,
        example: "/var/lib/larder",
        help: "Directory for backups of disk stores (`POST /v1/store/backup`). Larder creates it \
               when it is needed, if the parent directory exists.",
        ..ROW
    },
    SettingSpec {
        name: "grace",
        section: SettingSection::Process,
        kind: ValueKind::Duration { min: 0, max: DAY },
        default: Is("10s"),
        live: true,
        example: "30s",
        help: "Maximum time that requests in flight get to finish after SIGTERM or SIGINT.",
        ..ROW
    },
    SettingSpec {
        name: "moving-endpoint",
        section: SettingSection::Process,
        kind: ValueKind::Endpoint,
        optional: true,
        example: "larder.example:6380",
        help: "New address for Redis clients with maintenance notifications when this process drains. It should lead to the remaining Larders. Without it, Larder notifies only clients that can connect to their present address again.",
        ..ROW
    },
    SettingSpec {
        name: "log-level",
        section: SettingSection::Process,
        kind: ValueKind::Choice(LogLevel::NAMES),
        default: Is("info"),
        live: true,
        example: "debug",
        help: "Minimum severity of events that are logged to standard error. It can be changed at \
               run time.",
        ..ROW
    },
    SettingSpec {
        name: "log-format",
        section: SettingSection::Process,
        kind: ValueKind::Choice(LogFormat::NAMES),
        default: Is("text"),
        example: "json",
        help: "Format of log events: a line of text or a JSON object.",
        ..ROW
    },
    SettingSpec {
        name: "access-log",
        section: SettingSection::Process,
        kind: ValueKind::Share,
        optional: true,
        live: true,
        example: "1%",
        help: "Logs this share of HTTP requests at level `info`: client, answering node, duration. \
               Requests that another node samples are logged here, too. At level `debug`, all HTTP \
               requests are logged.",
        ..ROW
    },
    SettingSpec {
        name: "access-log-slower-than",
        section: SettingSection::Process,
        kind: ValueKind::Duration { min: 0, max: DAY },
        optional: true,
        live: true,
        example: "500ms",
        help: "Logs HTTP requests that take this long or longer until the client's socket has taken the \
               response, and those answered with status 500 or above, at level `info`, whatever the \
               share of `access-log` is.",
        ..ROW
    },
    SettingSpec {
        name: "slowlog-log-slower-than",
        section: SettingSection::Process,
        kind: ValueKind::Duration { min: 0, max: DAY },
        default: Is("10ms"),
        optional: true,
        live: true,
        example: "100ms",
        help: "The slow log has the Redis commands that took this long or longer, from the beginning \
               to the reply. `0`: all commands. See `SLOWLOG`.",
        ..ROW
    },
    SettingSpec {
        name: "slowlog-max-len",
        section: SettingSection::Process,
        kind: ValueKind::Count { min: 0, max: 100_000 },
        default: Is("128"),
        live: true,
        example: "1000",
        help: "Maximum number of entries of the slow log. At the limit, the oldest go. An entry has \
               at most 5 KiB.",
        ..ROW
    },
    SettingSpec {
        name: "latency-monitor-threshold",
        section: SettingSection::Process,
        kind: ValueKind::Duration { min: 1, max: DAY },
        optional: true,
        live: true,
        example: "100ms",
        help: "Redis commands that took this long or longer are latency events (`LATENCY LATEST`).",
        ..ROW
    },
    SettingSpec {
        name: "otlp-endpoint",
        section: SettingSection::Process,
        kind: ValueKind::Text,
        optional: true,
        example: "http://localhost:4318",
        help: "URL of an OpenTelemetry collector, to which Larder sends metrics and traces (OTLP over \
               HTTP, protobuf). Only in a build with the feature `otlp`. See docs/opentelemetry.md.",
        ..ROW
    },
    SettingSpec {
        name: "otlp-sample",
        section: SettingSection::Process,
        kind: ValueKind::Share,
        default: Is("1%"),
        optional: true,
        example: "10%",
        help: "Share of the HTTP requests without a `traceparent`, and of the fetches for other \
               requests, that Larder traces. With a `traceparent`, its sender decides. `off`: only \
               those are traced.",
        ..ROW
    },
    SettingSpec {
        name: "otlp-interval",
        section: SettingSection::Process,
        kind: ValueKind::Duration { min: 1000, max: DAY },
        default: Is("10s"),
        example: "1m",
        help: "Time between two messages with metrics to `otlp-endpoint`. Traces are sent each second.",
        ..ROW
    },
    SettingSpec {
        name: "otlp-ca",
        section: SettingSection::Process,
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/otel-ca.pem",
        help: "PEM file of the authorities that Larder trusts for an `https://` `otlp-endpoint`. \
               Default: those that Mozilla trusts.",
        ..ROW
    },
    SettingSpec {
        name: "otlp-headers",
        section: SettingSection::Process,
        kind: ValueKind::Header,
        optional: true,
        many: true,
        example: "Authorization: @/run/secrets/otlp",
        help: "Header fields of each message to `otlp-endpoint`, `Name: value`, or `Name: @FILE` to \
               read the value from a file at the start. The values are secrets and are never shown.",
        ..ROW
    },
    SettingSpec {
        name: "what-if",
        section: SettingSection::Process,
        kind: ValueKind::Share,
        default: Is("100%"),
        optional: true,
        example: "1%",
        help: "The largest share of the keys that Larder simulates for `/v1/what-if`: the hit ratio \
               at other sizes. Rounded down to a half, a quarter and so on. Larder lowers it by \
               itself when there are many keys or many reads. `off`: nothing is simulated.",
        ..ROW
    },
    SettingSpec {
        name: "allow-faults",
        section: SettingSection::Process,
        kind: ValueKind::Switch,
        default: Is("false"),
        example: "true",
        help: "Lets administrators order faults (`POST /v1/faults`), to rehearse an outage. See \
               docs/faults.md.",
        ..ROW
    },
];
