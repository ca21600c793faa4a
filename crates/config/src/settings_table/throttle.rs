//! Settings of the section “Throttle”.
use super::{
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is},
        SettingSpec,
    },
    value_kind::ValueKind,
};

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Throttle);

pub(super) const THROTTLE: &[SettingSpec] = &[
    SettingSpec {
        name: "throttle",
        kind: ValueKind::Rate,
        optional: true,
        live: true,
        example: "1000/s",
        help: "Maximum requests per client address, per second (`1000/s`) or per minute (`5000/m`); \
               excess requests get HTTP 429 (503 on the compatibility routes) or `-ERR throttled`. After a \
               pause, a client may send the requests of the whole second or minute at once. See \
               docs/limits.md.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-user",
        kind: ValueKind::Rate,
        optional: true,
        live: true,
        example: "2000/s",
        help: "Maximum requests per second per user, over all addresses. It does not apply to \
               clients that have not logged in.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-commands",
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
        kind: ValueKind::Switch,
        default: Is("false"),
        live: true,
        example: "true",
        help: "Adds `RateLimit` and `RateLimit-Policy` to every HTTP response to a limited request, \
               not only to refusals. Hits then cost more, because hyper answers them.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-total",
        kind: ValueKind::Rate,
        optional: true,
        live: true,
        example: "50000/s",
        help: "Maximum requests per second of all clients together.",
        ..ROW
    },
    SettingSpec {
        name: "throttle-admin",
        kind: ValueKind::Rate,
        default: Computed("a tenth of throttle; none without it"),
        optional: true,
        live: true,
        example: "10/s",
        help: "Maximum requests per second per client address to the admin and stats routes.",
        ..ROW
    },
];
