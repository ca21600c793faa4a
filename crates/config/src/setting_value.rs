//! One value of a setting: its text read as the table's kind says, and shown so that it reads back.
use super::{
    command_lists::CommandList,
    listen_address::parse_address,
    machine_limits::Machine,
    nearest_name::{nearest, usual_name},
    otlp_settings::resource_attribute,
    peer_entry::{PeerAddress, Zone, ZonedPeerEntry},
    peer_settings::LoadFactor,
    rate_limit::{Rate, RateLimit},
    replication_settings::{PrimaryAddress, PrimaryHttp, ReplicationMode},
    save_point::SavePoint,
    secret::Secret,
    sent_header::SentHeader,
    settings::RefreshAhead,
    settings_table::{SettingSpec, ValueKind},
    source_url::SourceUrl,
    trusted_proxies::parse_range,
};
use http::HeaderName;
use ipnet::IpNet;
use larder_store::disk::Durability;
use larder_units::{parse_duration, parse_size, show_duration, show_size};
use std::{fmt, net::SocketAddr, time::Duration};
use tokio_rustls::rustls::pki_types::ServerName;

/// A checked value.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingValue {
    Size(u64),
    Count(u64),
    Percent(u64),
    Duration(Duration),
    RefreshAhead(RefreshAhead),
    /// In millionths.
    Share(u32),
    Rate(Rate),
    RateLimit(RateLimit),
    SavePoint(SavePoint),
    Address(SocketAddr),
    AddressRange(IpNet),
    Source(SourceUrl),
    Durability(Durability),
    Text(String),
    Switch(bool),
    Secret(Secret),
    Header(SentHeader),
    Peer(PeerAddress),
    PeerEntry(ZonedPeerEntry),
    Zone(Zone),
    LoadFactor(LoadFactor),
    Primary(PrimaryAddress),
    PrimaryHttp(PrimaryHttp),
    ReplicationMode(ReplicationMode),
}

impl SettingValue {
    pub(super) fn as_peer_entry(&self) -> Option<&ZonedPeerEntry> {
        if let SettingValue::PeerEntry(entry) = self { Some(entry) } else { None }
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValue::Size(bytes) => f.write_str(&show_size(*bytes)),
            SettingValue::Count(n) => n.fmt(f),
            SettingValue::Percent(n) => write!(f, "{n}%"),
            SettingValue::Duration(duration) => f.write_str(&show_duration(*duration)),
            SettingValue::RefreshAhead(when) => when.fmt(f),
            SettingValue::Share(millionths) => write!(f, "{}%", f64::from(*millionths) / 1e4),
            SettingValue::Rate(rate) => rate.fmt(f),
            SettingValue::RateLimit(limit) => limit.fmt(f),
            SettingValue::SavePoint(point) => point.fmt(f),
            SettingValue::Address(address) => address.fmt(f),
            // A range of one is written as an address.
            SettingValue::AddressRange(range) if range.prefix_len() == range.max_prefix_len() => range.addr().fmt(f),
            SettingValue::AddressRange(range) => range.fmt(f),
            SettingValue::Source(url) => url.fmt(f),
            SettingValue::Durability(durability) => durability.fmt(f),
            SettingValue::Text(text) => f.write_str(text),
            SettingValue::Switch(on) => on.fmt(f),
            SettingValue::Secret(_) => f.write_str("***"),
            SettingValue::Header(header) => header.fmt(f),
            SettingValue::Peer(address) => address.fmt(f),
            SettingValue::PeerEntry(entry) => entry.fmt(f),
            SettingValue::Zone(zone) => zone.fmt(f),
            SettingValue::LoadFactor(factor) => factor.fmt(f),
            SettingValue::Primary(address) => address.fmt(f),
            SettingValue::PrimaryHttp(address) => address.fmt(f),
            SettingValue::ReplicationMode(mode) => mode.fmt(f),
        }
    }
}

/// Reads one value; the error says what is wrong with the text and what would be right.
pub(super) fn parse(setting: &SettingSpec, text: &str, machine: &Machine) -> Result<SettingValue, String> {
    if text.is_empty() {
        return Err("is empty: leave it out for the default".to_string());
    }
    let is_a_choice = match setting.kind {
        ValueKind::Choice(names) => names.iter().any(|name| name.eq_ignore_ascii_case(usual_name(text))),
        ValueKind::Switch => true,
        _ => false,
    };
    if !setting.optional && is_off(text) && !is_a_choice {
        return Err(format!("cannot be `{text}`"));
    }
    match setting.kind {
        ValueKind::Size { min, max } => within(parse_size(text)?, min, max, show_size).map(SettingValue::Size),
        ValueKind::Memory { min } => {
            let bytes = match text.strip_suffix('%') {
                Some(share) => {
                    let share = within(count(share.trim_end(), text)?, 1, 100, |n| format!("{n}%"))?;
                    let bytes = u128::from(machine.memory) * u128::from(share) / 100;
                    // Whole MiB read better. A share of at most 100 % fits what the memory itself fits.
                    (bytes as u64) >> 20 << 20
                }
                None => parse_size(text)?,
            };
            within(bytes, min, usize::MAX as u64, show_size).map(SettingValue::Size)
        }
        ValueKind::Count { min, max } => {
            within(count(text, text)?, min, max, |n| n.to_string()).map(SettingValue::Count)
        }
        ValueKind::Percent { max } => {
            let number = text.strip_suffix('%').unwrap_or(text).trim_end();
            within(count(number, text)?, 0, max, |n| format!("{n}%")).map(SettingValue::Percent)
        }
        ValueKind::Duration { min, max } => {
            // Zero needs no unit, also where it is an error.
            let millis = match text {
                "0" => 0,
                text => parse_duration(text)?.as_millis() as u64,
            };
            let show = |millis| show_duration(Duration::from_millis(millis));
            let none = if setting.optional && millis == 0 { ", or `none`" } else { "" };
            let millis = within(millis, min, max, show).map_err(|error| error + none)?;
            Ok(SettingValue::Duration(Duration::from_millis(millis)))
        }
        ValueKind::SavePoint => SavePoint::parse(text).map(SettingValue::SavePoint),
        ValueKind::Share => share(text).map(SettingValue::Share),
        ValueKind::RefreshAhead => text.parse().map(SettingValue::RefreshAhead),
        ValueKind::Rate => Rate::parse(text).map(SettingValue::Rate),
        ValueKind::PrefixRate => RateLimit::of_prefix(text).map(SettingValue::RateLimit),
        ValueKind::CommandRate => RateLimit::of_commands(text).map(SettingValue::RateLimit),
        ValueKind::Address => parse_address(text, machine.ipv6).map(SettingValue::Address),
        ValueKind::AddressRange => parse_range(text).map(SettingValue::AddressRange),
        ValueKind::Source => text.parse().map(SettingValue::Source),
        ValueKind::Durability => Durability::parse(text).map(SettingValue::Durability),
        ValueKind::Endpoint => {
            let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
            match !host.is_empty()
                && !text.contains(char::is_whitespace)
                && port.parse::<u16>().is_ok_and(|port| port > 0)
            {
                true => Ok(SettingValue::Text(text.to_string())),
                false => Err(format!("`{text}` is not a host and port: write larder.example:6380")),
            }
        }
        ValueKind::Hostname => match ServerName::try_from(text) {
            Ok(_) => Ok(SettingValue::Text(text.to_string())),
            Err(_) => Err(format!("`{text}` is not the name of a host")),
        },
        ValueKind::Peer => text.parse().map(SettingValue::Peer),
        ValueKind::PeerEntry => text.parse().map(SettingValue::PeerEntry),
        ValueKind::Zone => text.parse().map(SettingValue::Zone),
        ValueKind::LoadFactor => text.parse().map(SettingValue::LoadFactor),
        ValueKind::Primary => text.parse().map(SettingValue::Primary),
        ValueKind::PrimaryHttp => text.parse().map(SettingValue::PrimaryHttp),
        ValueKind::ReplicationMode => text.parse().map(SettingValue::ReplicationMode),
        ValueKind::Path | ValueKind::Prefix | ValueKind::Text => Ok(SettingValue::Text(text.to_string())),
        ValueKind::RoutePrefix => route_prefix(text).map(SettingValue::Text),
        ValueKind::Switch => {
            switch(text).map(SettingValue::Switch).ok_or_else(|| format!("`{text}` is not true or false"))
        }
        ValueKind::Command => CommandList::check(text).map(SettingValue::Text),
        ValueKind::Secret => Ok(SettingValue::Secret(text.into())),
        ValueKind::Header => SentHeader::parse(text).map(SettingValue::Header),
        ValueKind::Attribute => resource_attribute(text).map(|_| SettingValue::Text(text.to_string())),
        ValueKind::HeaderName => match HeaderName::try_from(text) {
            Ok(name) => Ok(SettingValue::Text(name.to_string())),
            Err(_) => Err(format!("`{text}` is not the name of a header")),
        },
        ValueKind::Choice(names) => match names.iter().find(|n| n.eq_ignore_ascii_case(usual_name(text))) {
            Some(name) => Ok(SettingValue::Text(name.to_string())),
            None => {
                let near = nearest(text, names.iter().copied())
                    .map_or(String::new(), |near| format!(", did you mean {near}?"));
                Err(format!("`{text}` is not one of {}{near}", names.join(", ")))
            }
        },
    }
}

/// A share in millionths.
fn share(text: &str) -> Result<u32, String> {
    let number = text
        .strip_suffix('%')
        .map(str::trim_end)
        .filter(|number| number.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
    let percent: f64 = number
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("`{text}` is not a share: write 100% for all, 5%, 0.1%, or `none`"))?;
    let millionths = (percent * 1e4).round();
    if (1.0..=1e6).contains(&millionths) {
        Ok(millionths as u32)
    } else {
        Err(format!("{text} is not between 0.0001% and 100%"))
    }
}

/// `true` or `false`, or a word that means one of them.
fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// The words that switch a setting off.
pub(super) fn is_off(text: &str) -> bool {
    text.eq_ignore_ascii_case("none") || text.eq_ignore_ascii_case("off")
}

fn count(number: &str, whole: &str) -> Result<u64, String> {
    match number.bytes().all(|b| b.is_ascii_digit()) && !number.is_empty() {
        true => number.parse().map_err(|_| format!("`{whole}` is too large")),
        false => Err(format!("`{whole}` is not a whole number")),
    }
}

/// A path that no other route begins with. GCache writes it without slashes around it.
fn route_prefix(text: &str) -> Result<String, String> {
    let bare = text.trim_matches('/');
    let mut segments = bare.split('/');
    let is_plain = |segment: &str| {
        let is_unreserved = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        !segment.is_empty() && segment.bytes().all(is_unreserved) && !matches!(segment, "." | "..")
    };
    if !segments.clone().all(is_plain) {
        return Err(format!("`{text}` is not a path of letters, digits, `-`, `.`, `_` and `~`: write /cache/v1"));
    }
    match segments.next().filter(|first| RESERVED_SEGMENTS.contains(first)) {
        Some(first) => Err(format!("paths below /{first} belong to other routes: choose another, such as /cache/v1")),
        None => Ok(format!("/{bare}")),
    }
}

/// First segments of the paths of other routes.
pub const RESERVED_SEGMENTS: [&str; 13] = [
    "_groupcache",
    "larder.peers.v1.Peers",
    "data",
    "docs",
    "healthz",
    "lookup",
    "metrics",
    "openapi.json",
    "problems",
    "readyz",
    "stats",
    "v0",
    "v1",
];

fn within(n: u64, min: u64, max: u64, show: impl Fn(u64) -> String) -> Result<u64, String> {
    if n < min {
        Err(format!("{} is too small: the least is {}", show(n), show(min)))
    } else if n > max {
        Err(format!("{} is too large: the most is {}", show(n), show(max)))
    } else {
        Ok(n)
    }
}
