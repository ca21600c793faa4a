//! How the text of a setting is read.
use crate::{
    auth_mode::AuthMode,
    checked_texts::{host_and_port, hostname, redis_prefix, route_prefix},
    command_lists::CommandList,
    in_flight::InFlight,
    listen_address::{parse_address, parse_listener},
    machine_limits::Machine,
    otlp_settings::resource_attribute,
    peer_entry::{PeerAddress, Zone, ZonedPeerEntry},
    peer_settings::{HotCopies, LoadFactor},
    rate_limit::{Rate, RateLimit},
    replication_settings::{PrimaryAddress, ReplicaWrites, ReplicationMode},
    save_point::SavePoint,
    sent_header::SentHeader,
    setting_value::{SettingValue, Share},
    settings::RefreshAhead,
    source_url::SourceUrl,
    trusted_proxies::AddressRange,
};
use larder_store::disk::Durability;

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
    /// A file or directory.
    Path,
    /// Any text.
    Text,
    /// Any text; it is not shown.
    Secret,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// `true` or `false`; the flag alone means `true`.
    Switch,
    /// What has a form of its own.
    Form(&'static Form),
}

/// A form of text that some settings have.
#[derive(Debug)]
pub struct Form {
    /// The placeholder in help texts.
    placeholder: &'static str,
    /// What is allowed, for the documentation; empty: the help says it.
    pub(crate) range: &'static str,
    pub(crate) read: fn(&str, &Machine) -> Result<SettingValue, String>,
}

/// Forms: their names, placeholders and ranges, and what reads them.
macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident $placeholder:literal $($range:literal)? => $read:expr;)*) => {
        $(
            $(#[$doc])*
            pub(super) const $name: ValueKind = ValueKind::Form(&Form {
                placeholder: $placeholder,
                range: concat!("" $(, $range)?),
                read: |text, machine| {
                    let read: fn(&str, &Machine) -> Result<_, String> = $read;
                    read(text, machine).map(SettingValue::new)
                },
            });
        )*
    };
}

forms! {
    /// When a snapshot is due: `15m`, `1m:1000`.
    SAVE_POINT "DURATION[:CHANGES]" => |text, _| SavePoint::parse(text);
    /// When a copy is renewed before it is out of date: a share of the lifetime, or `xfetch`.
    REFRESH_AHEAD "WHEN" "`1%` to `99%`, or `xfetch`" => |text, _| text.parse::<RefreshAhead>();
    /// A share of all, down to a millionth: `0.1%`.
    SHARE "PERCENT" "0.0001% to 100%" => |text, _| text.parse::<Share>();
    /// Requests per second: `1000/s`.
    RATE "N/s" => |text, _| Rate::parse(text);
    /// Requests per second for keys with a prefix: `user:=1000/s`.
    PREFIX_RATE "PREFIX=N/s" => |text, _| RateLimit::of_prefix(text);
    /// Requests per second for commands: `@write=100/s`.
    COMMAND_RATE "COMMAND=N/s" => |text, _| RateLimit::of_commands(text);
    /// An address to listen on or to connect to.
    ADDRESS "ADDR" => |text, machine| parse_address(text, machine.ipv6);
    /// The address of a listener, which may be a Unix socket.
    LISTENER "ADDR" => |text, machine| parse_listener(text, machine.ipv6);
    /// An address, or a range of them: `10.0.0.0/8`.
    ADDRESS_RANGE "RANGE" => |text, _| text.parse::<AddressRange>();
    /// A source URL.
    SOURCE "URL" => |text, _| text.parse::<SourceUrl>();
    /// Who checks the credentials of Redis clients.
    AUTH "WHERE" "`larder`, or `passthrough[:DURATION]`" => |text, _| text.parse::<AuthMode>();
    /// How long copies of other nodes' keys live, and which keys are copied.
    HOT_COPIES "DURATION[:READS]" "0ms to 1d, behind a colon 1 to 100" => |text, _| text.parse::<HotCopies>();
    /// A limit on fetches.
    IN_FLIGHT "N" "1 to 1048576, or `fixed:N`" => |text, _| text.parse::<InFlight>();
    /// When a write is on stable storage.
    DURABILITY "WHEN" => |text, _| Durability::parse(text);
    /// What keys begin with.
    PREFIX "PREFIX" => |text, _| Ok(text.to_owned());
    /// A host and a port, which are not looked up here.
    ENDPOINT "HOST:PORT" => |text, _| host_and_port(text);
    /// The name of a host, which is not looked up here.
    HOSTNAME "HOST" => |text, _| hostname(text);
    /// A node that shares its cache: host and port, or a base URL.
    PEER "HOST:PORT" => |text, _| text.parse::<PeerAddress>();
    /// Or a way to find such nodes; and their zone.
    PEER_ENTRY "HOST:PORT" => |text, _| text.parse::<ZonedPeerEntry>();
    /// The name of a zone.
    ZONE "NAME" => |text, _| text.parse::<Zone>();
    /// A factor of a mean: `1.25`.
    LOAD_FACTOR "FACTOR" "1 to 100" => |text, _| text.parse::<LoadFactor>();
    /// The first part of the paths of an API: `/cache/v1`.
    ROUTE_PREFIX "PREFIX" => |text, _| route_prefix(text);
    /// The first part of the paths of Redis over HTTP: `/redis`, or `/` for the root.
    REDIS_PREFIX "PREFIX" => |text, _| redis_prefix(text);
    /// Where a primary serves the Redis protocol.
    PRIMARY "URL" => |text, _| text.parse::<PrimaryAddress>();
    /// What a replica does with writes.
    REPLICA_WRITES "WHAT" "`refuse`, `forward` or `forward:URL`" => |text, _| text.parse::<ReplicaWrites>();
    /// How a replica follows its primary.
    REPLICATION_MODE "MODE" => |text, _| text.parse::<ReplicationMode>();
    /// A header field to send, `Name: value` or `Name: @FILE`; a value is not shown.
    HEADER "HEADER" => |text, _| SentHeader::parse(text);
    /// An attribute of OpenTelemetry's: `NAME=VALUE`.
    ATTRIBUTE "NAME=VALUE" => |text, _| resource_attribute(text).map(|_| text.to_owned());
    /// A command's name, `parent|subcommand` or `@category`.
    COMMAND "COMMAND" => |text, _| CommandList::check(text);
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
            ValueKind::Percent { .. } => "PERCENT",
            ValueKind::Duration { .. } => "DURATION",
            ValueKind::Path => "PATH",
            ValueKind::Text | ValueKind::Secret => "TEXT",
            ValueKind::Choice(_) => "NAME",
            ValueKind::Switch => "BOOL",
            ValueKind::Form(form) => form.placeholder,
        }
    }
}
