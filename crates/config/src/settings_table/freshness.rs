//! Settings of the section “Freshness”.
use super::{
    quantities::{DAY, TEN_YEARS},
    setting_section::SettingSection,
    setting_spec::{Fallback::Is, SettingSpec},
    value_kind::ValueKind,
};
use crate::settings::TierMode;

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Freshness);

pub(super) const FRESHNESS: &[SettingSpec] = &[
    SettingSpec {
        name: "ttl",
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
        name: "mode",
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
];
