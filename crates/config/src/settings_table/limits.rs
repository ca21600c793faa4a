//! Settings of the section “Limits”.
use super::{
    quantities::{DAY, KIB, MAX_VALUE, MIB, TEN_YEARS},
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is},
        SettingSpec,
    },
    value_kind::ValueKind,
};
use crate::key_length::MAX_KEY;

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Limits);

pub(super) const LIMITS: &[SettingSpec] = &[
    SettingSpec {
        name: "max-key",
        kind: ValueKind::Size { min: 1, max: MAX_KEY },
        default: Is("64KiB"),
        example: "250B",
        help: "Maximum length of a key. A key may be empty, as in Redis.",
        ..ROW
    },
    SettingSpec {
        name: "max-value",
        kind: ValueKind::Size { min: 1, max: MAX_VALUE },
        default: Is("512MiB"),
        example: "1MiB",
        help: "Maximum size of a value.",
        ..ROW
    },
    SettingSpec {
        name: "max-body",
        kind: ValueKind::Size { min: 1, max: 1 << 30 },
        default: Computed("max-value"),
        example: "2MiB",
        help: "Maximum size of the body of an HTTP request.",
        ..ROW
    },
    SettingSpec {
        name: "max-document-query",
        kind: ValueKind::Size { min: 1, max: 1 << 30 },
        default: Is("1MiB"),
        example: "4MiB",
        help: "Maximum size of a JSON document that a path with filters, slices, several selectors \
               or several `..` may read. Such a path may read the document many times. Other paths have no such \
               limit.",
        ..ROW
    },
    SettingSpec {
        name: "max-headers",
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
        kind: ValueKind::Count { min: 1, max: 1 << 20 },
        default: Is("1024"),
        example: "128",
        help: "Maximum number of commands of one Redis connection that wait for the source. At the \
               limit, Larder stops reading from the connection until one is answered.",
        ..ROW
    },
    SettingSpec {
        name: "max-buffers",
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
        kind: ValueKind::Size { min: 64 * KIB, max: 16 << 30 },
        default: Is("32MiB"),
        example: "8MiB",
        help: "Byte budget for undelivered push messages (messages and invalidations) of one Redis \
               client. At the limit, Larder closes the connection and INFO counts it.",
        ..ROW
    },
    SettingSpec {
        name: "tracking-table-max-keys",
        kind: ValueKind::Count { min: 0, max: 1 << 32 },
        default: Is("1000000"),
        live: true,
        example: "50000",
        help: "Maximum number of keys in the tracking table, used when Larder itself does the tracking (CLIENT TRACKING without a Redis source). At the limit, Larder invalidates some copies of clients. 0: no limit.",
        ..ROW
    },
    SettingSpec {
        name: "max-connections",
        kind: ValueKind::Count { min: 1, max: 1 << 20 },
        default: Is("10000"),
        example: "500",
        help: "Maximum number of client connections, over all listeners. At the limit, new \
               connections are closed at once.",
        ..ROW
    },
    SettingSpec {
        name: "idle-timeout",
        kind: ValueKind::Duration { min: 100, max: TEN_YEARS },
        optional: true,
        live: true,
        example: "5m",
        help: "Closes a connection that has been idle for this long.",
        ..ROW
    },
    SettingSpec {
        name: "header-timeout",
        kind: ValueKind::Duration { min: 100, max: DAY },
        default: Is("10s"),
        live: true,
        example: "5s",
        help: "Maximum time from the first byte of the head of an HTTP request, or of a Redis \
               command, to the last, and maximum time that Larder waits for a client during a TLS handshake.",
        ..ROW
    },
    SettingSpec {
        name: "max-queue-delay",
        kind: ValueKind::Duration { min: 1, max: DAY },
        optional: true,
        example: "20ms",
        help: "Maximum time that requests wait for a busy core. Beyond half of it, Larder refuses misses. Beyond all of it, Larder refuses every request for entries (HTTP 503, `-ERR overloaded`). The other requests then get their answers in time. Short bursts may wait up to 100 ms. See docs/overload.md.",
        ..ROW
    },
];
