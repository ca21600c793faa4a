//! Settings of the section “Limits”.
use super::{
    quantities::{DAY, KIB, MAX_VALUE, MIB, TEN_YEARS},
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is, Off},
        SettingSpec,
    },
    value_kind::ValueKind::{Count, Duration, Memory, Size},
};
use crate::key_length::MAX_KEY;

settings! { SettingSection::Limits;
    /// Maximum length of a key. A key may be empty, as in Redis.
    "max-key": Size { min: 1, max: MAX_KEY } => Is("64KiB"), example("250B");

    /// Maximum size of a value.
    "max-value": Size { min: 1, max: MAX_VALUE } => Is("512MiB"), example("1MiB");

    /// Maximum size of the body of an HTTP request.
    "max-body": Size { min: 1, max: 1 << 30 } => Computed("max-value"), example("2MiB");

    /// Maximum size of a JSON document that a path with filters, slices, several selectors or several
    /// `..` may read. Such a path may read the document many times. Other paths have no such limit.
    "max-document-query": Size { min: 1, max: 1 << 30 } => Is("1MiB"), example("4MiB");

    /// Maximum size of the head of an HTTP request: the request line, which holds the key, and the
    /// headers.
    // hyper refuses a smaller read buffer than 8 KiB.
    "max-headers": Size { min: 8 * KIB, max: MIB } => Is("128KiB"), example("16KiB");

    /// Maximum number of commands of one Redis connection that wait for the source. At the limit,
    /// Larder stops reading from the connection until one is answered.
    "max-pipeline": Count { min: 1, max: 1 << 20 } => Is("1024"), example("128");

    /// Byte budget for all buffers together, besides `max-memory`: unprocessed input, unsent replies
    /// and responses, push messages, and traffic with sources. In bytes or as a percentage of the
    /// memory that the process may use. A command or body that cannot fit is refused. At the limit, the
    /// connections that hold the most are closed. See docs/operations.md.
    "max-buffers": Memory { min: MIB } => Computed("an eighth of the memory that the process may use, at least 32MiB"),
        example("256MiB");

    /// Byte budget for undelivered push messages (messages and invalidations) of one Redis client. At
    /// the limit, Larder closes the connection and INFO counts it.
    "max-backlog": Size { min: 64 * KIB, max: 16 << 30 } => Is("32MiB"), example("8MiB");

    /// Maximum number of keys in the tracking table, used when Larder itself does the tracking (CLIENT
    /// TRACKING without a Redis source). At the limit, Larder invalidates some copies of clients. 0: no
    /// limit.
    "tracking-table-max-keys": Count { min: 0, max: 1 << 32 } => Is("1000000"), example("50000"), live;

    /// Maximum number of client connections, over all listeners. At the limit, new connections are
    /// closed at once.
    "max-connections": Count { min: 1, max: 1 << 20 } => Is("10000"), example("500");

    /// Closes a connection that has been idle for this long.
    "idle-timeout": Duration { min: 100, max: TEN_YEARS } => Off, example("5m"), optional, live;

    /// Maximum time from the first byte of the head of an HTTP request, or of a Redis command, to the
    /// last, and maximum time that Larder waits for a client during a TLS handshake.
    "header-timeout": Duration { min: 100, max: DAY } => Is("10s"), example("5s"), live;

    /// Maximum time that requests wait for a busy core. Beyond half of it, Larder refuses misses.
    /// Beyond all of it, Larder refuses every request for entries (HTTP 503, `-ERR overloaded`). The
    /// other requests then get their answers in time. Short bursts may wait up to 100 ms. See
    /// docs/overload.md.
    "max-queue-delay": Duration { min: 1, max: DAY } => Off, example("20ms"), optional;
}
