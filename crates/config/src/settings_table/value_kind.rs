//! How the text of a setting is read.

/// How a setting's text is read; bounds are inclusive.
#[derive(Debug, Clone, Copy)]
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
    /// When a snapshot is due: `15m`, `1m:1000`.
    SavePoint,
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
    /// Where a primary serves HTTP.
    PrimaryHttp,
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
    /// An attribute of OpenTelemetry's: `NAME=VALUE`.
    Attribute,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// `true` or `false`; the flag alone means `true`.
    Switch,
    /// A command's name, `parent|subcommand` or `@category`.
    Command,
}

impl ValueKind {
    /// `true` and `false` are values, and the flag alone means `true`.
    pub(crate) fn takes_bool(self) -> bool {
        match self {
            ValueKind::Switch => true,
            ValueKind::Choice(names) => names.contains(&"true"),
            _ => false,
        }
    }
    /// The placeholder in help texts.
    pub fn placeholder(self) -> &'static str {
        match self {
            ValueKind::Size { .. } | ValueKind::Memory { .. } => "SIZE",
            ValueKind::Count { .. } => "N",
            ValueKind::Percent { .. } | ValueKind::Share => "PERCENT",
            ValueKind::Duration { .. } => "DURATION",
            ValueKind::SavePoint => "DURATION[:CHANGES]",
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
            ValueKind::Primary | ValueKind::PrimaryHttp => "URL",
            ValueKind::ReplicationMode => "MODE",
            ValueKind::Text | ValueKind::Secret => "TEXT",
            ValueKind::Header => "HEADER",
            ValueKind::HeaderName => "NAME",
            ValueKind::Attribute => "NAME=VALUE",
            ValueKind::Choice(_) => "NAME",
            ValueKind::Switch => "BOOL",
            ValueKind::Command => "COMMAND",
        }
    }
}
