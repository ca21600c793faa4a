//! Settings of the section “Freshness”.
use super::{
    quantities::{DAY, TEN_YEARS},
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Is, Off},
        SettingSpec,
    },
    value_kind::{
        REFRESH_AHEAD, SHARE,
        ValueKind::{Choice, Duration, Percent},
    },
};
use crate::settings::TierMode;

settings! { SettingSection::Freshness;
    /// Default lifetime of entries that are stored without one, and maximum lifetime of entries that
    /// are fetched from the source.
    "ttl": Duration { min: 1, max: TEN_YEARS } => Off,
        example("10s"), optional, per_group, per_prefix, live, also(&["PROXY_TTL_MS"]);

    /// Shortens each lifetime that `ttl` gives by a random share of up to this, so that entries stored
    /// together do not expire together.
    "ttl-jitter": Percent { max: 50 } => Is("0%"), example("10%"), per_group;

    /// How long Larder caches that the source does not have a key.
    "negative-ttl": Duration { min: 1, max: DAY } => Off, example("1s"), optional, per_group, per_prefix, live;

    /// How long after its lifetime a copy is served while one fetch in the background renews it. `0` or
    /// `off`: a read after the lifetime waits for the fetch.
    "stale-while-revalidate": Duration { min: 0, max: TEN_YEARS } => Is("0ms"),
        example("30s"), optional, per_group, per_prefix, live;

    /// How long after its lifetime a copy is served if the source fails or is lost. `0` or `off`: the
    /// read gets the error.
    "stale-if-error": Duration { min: 0, max: TEN_YEARS } => Is("30s"),
        example("5m"), optional, per_group, per_prefix, live;

    /// How long a read waits for a fetch before it gets the stale copy that `stale-if-error` allows.
    /// The fetch continues and fills the tier. `off`: the read waits up to `source-timeout`.
    "soft-timeout": Duration { min: 1, max: DAY } => Is("100ms"),
        example("20ms"), optional, per_group, per_prefix, live;

    /// Renews a copy in the background when it is read shortly before the end of its lifetime. `20%`:
    /// in the last fifth of the lifetime. `xfetch`: at a random time near the end, earlier for copies
    /// whose fetch took long. `off`: never.
    "refresh-ahead": REFRESH_AHEAD => Off, example("20%"), optional, per_group, per_prefix, live;

    /// Maximum time that a copy is served after its lifetime, whatever `stale-while-revalidate`,
    /// `stale-if-error` and headers of the source allow. `off`: no such limit.
    "max-stale": Duration { min: 0, max: TEN_YEARS } => Off, example("10m"), optional, per_group, per_prefix, live;

    /// How the memory tier treats keys. `cache`: stores and serves them. `observe`: stores them and
    /// counts hits and misses, but the source answers each read. `deny`: neither stores nor serves
    /// them. See docs/observe.md.
    "mode": Choice(TierMode::NAMES) => Is("cache"), example("observe"), per_group, per_prefix, live;

    /// Compares this share of hits with the source a moment later and counts older copies in `/metrics`
    /// (`larder_inspected_…`). Each comparison costs one fetch. At most four run at a time per thread,
    /// and none while the source fails. Cached replies are not compared.
    "inspect": SHARE => Off, example("0.1%"), optional, per_group;
}
