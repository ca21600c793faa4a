//! Defaults that depend on the machine or on other settings.
use super::{
    effective_values::EffectiveSettings,
    machine_limits::Machine,
    peer_entry::{PeerAddress, PeerEntry, ZonedPeerEntry},
    rate_limit::Rate,
    setting_value::SettingValue,
};

/// The default of the setting `name`; none: it is off.
pub(super) fn computed(name: &str, scope: &EffectiveSettings, machine: &Machine) -> Vec<SettingValue> {
    let value = match name {
        "max-memory" => Some(SettingValue::Size(((machine.memory / 4) >> 20 << 20).max(1 << 20))),
        "max-buffers" => Some(SettingValue::Size(((machine.memory / 8) >> 20 << 20).max(32 << 20))),
        "max-body" => scope.one("max-value").cloned(),
        "threads" => Some(SettingValue::Count(machine.cores as u64)),
        "store-block-cache" => Some(SettingValue::Size(((machine.memory / 16) >> 20 << 20).max(32 << 20))),
        "peer-self" => only_http_address(scope),
        "peer-zone" => zone_in_list(scope),
        "peer-gossip" | "peers-dns-server" => None,
        "throttle-admin" => {
            let tenth = |rate: Rate| SettingValue::Rate(Rate { requests: (rate.requests / 10).max(1), ..rate });
            scope.rate("throttle").map(tenth)
        }
        _ => None,
    };
    value.into_iter().collect()
}

/// Where others reach this process, if that is known before it listens.
fn only_http_address(scope: &EffectiveSettings) -> Option<SettingValue> {
    let listener = if scope.one("peer-tls-ca").is_some() { "https" } else { "http" };
    match scope.addresses(listener)[..] {
        [only] if !only.ip().is_unspecified() && only.port() != 0 => {
            Some(SettingValue::Peer(PeerAddress { host: only.ip().to_string(), port: only.port() }))
        }
        _ => None,
    }
}

/// The item of `peers` that is this node; `None`: the nodes are not listed, or this one is not
/// among them.
pub(super) fn own_entry(scope: &EffectiveSettings) -> Option<&ZonedPeerEntry> {
    let Some(SettingValue::Peer(this)) = scope.one("peer-self") else { return None };
    let mut entries = scope.effective("peers").values.iter().filter_map(SettingValue::as_peer_entry);
    entries.find(|of| matches!(&of.entry, PeerEntry::Node(address) if address == this))
}

fn zone_in_list(scope: &EffectiveSettings) -> Option<SettingValue> {
    own_entry(scope)?.zone.clone().map(SettingValue::Zone)
}
