//! Defaults that depend on the machine or on other settings.
use super::{
    effective_values::EffectiveSettings,
    machine_limits::Machine,
    peer_entry::{PeerAddress, PeerEntry, ZonedPeerEntry},
    rate_limit::Rate,
    setting_value::{SettingValue, Size},
};

/// The default of the setting `name`; `None`: it is off, or is worked out later.
pub(super) fn computed(name: &str, scope: &EffectiveSettings, machine: &Machine) -> Option<SettingValue> {
    // Whole MiB, and not less than so many.
    let part_of_memory =
        |part: u64, least: u64| SettingValue::new(Size(((machine.memory / part) >> 20).max(least) << 20));
    Some(match name {
        "max-memory" => part_of_memory(4, 1),
        "max-buffers" => part_of_memory(8, 32),
        "store-block-cache" => part_of_memory(16, 32),
        "max-body" => scope.effective("max-value").values.first()?.clone(),
        "threads" => SettingValue::new(machine.cores as u64),
        "peer-self" => SettingValue::new(only_http_address(scope)?),
        "peer-zone" => SettingValue::new(own_entry(scope)?.zone.clone()?),
        "throttle-admin" => {
            let rate: Rate = *scope.one("throttle")?;
            SettingValue::new(Rate { requests: (rate.requests / 10).max(1), ..rate })
        }
        _ => return None,
    })
}

/// Where others reach this process, if that is known before it listens.
fn only_http_address(scope: &EffectiveSettings) -> Option<PeerAddress> {
    let listener = if scope.is_set("peer-tls-ca") { "https" } else { "http" };
    match &scope.addresses(listener)[..] {
        [only] if !only.ip().is_unspecified() && only.port() != 0 => {
            Some(PeerAddress { host: only.ip().to_string(), port: only.port() })
        }
        _ => None,
    }
}

/// The item of `peers` that is this node; `None`: the nodes are not listed, or this one is not
/// among them.
pub(super) fn own_entry(scope: &EffectiveSettings) -> Option<&ZonedPeerEntry> {
    let this: &PeerAddress = scope.one("peer-self")?;
    scope.all::<ZonedPeerEntry>("peers").find(|of| matches!(&of.entry, PeerEntry::Node(address) if address == this))
}
