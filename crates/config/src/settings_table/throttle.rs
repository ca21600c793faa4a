//! Settings of the section “Throttle”.
use super::{
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is, Off},
        SettingSpec,
    },
    value_kind::{COMMAND_RATE, PREFIX_RATE, RATE, ValueKind::Switch},
};

settings! { SettingSection::Throttle;
    /// Maximum requests per client address, per second (`1000/s`) or per minute (`5000/m`); excess
    /// requests get HTTP 429 (503 on the compatibility routes) or `-ERR throttled`. After a pause, a
    /// client may send the requests of the whole second or minute at once. See docs/limits.md.
    "throttle": RATE => Off, example("1000/s"), optional, live;

    /// Maximum requests per second per user, over all addresses. It does not apply to clients that have
    /// not logged in.
    "throttle-user": RATE => Off, example("2000/s"), optional, live;

    /// Maximum requests per second per client address for some commands: `NAME=N/s` or `@CATEGORY=N/s`,
    /// named as in `deny-commands`. A command counts against every entry that lists it. HTTP requests
    /// for keys count as `@read` or `@write`.
    "throttle-commands": COMMAND_RATE => Off, example("@write=100/s"), optional, many, live;

    /// Maximum requests per second for keys with a prefix, over all clients: `PREFIX=N/s`. The longest
    /// matching prefix counts. A command counts once per key.
    "throttle-prefixes": PREFIX_RATE => Off, example("report:=50/s"), optional, many, live;

    /// Adds `RateLimit` and `RateLimit-Policy` to every HTTP response to a limited request, not only to
    /// refusals. Hits then cost more, because hyper answers them.
    "throttle-headers": Switch => Is("false"), example("true"), live;

    /// Maximum requests per second of all clients together.
    "throttle-total": RATE => Off, example("50000/s"), optional, live;

    /// Maximum requests per second per client address to the admin and stats routes.
    "throttle-admin": RATE => Computed("a tenth of throttle; none without it"),
        example("10/s"), optional, live;
}
