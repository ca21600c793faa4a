//! Settings of the section “Process”.
use super::{
    quantities::DAY,
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is, Off},
        SettingSpec,
    },
    value_kind::{
        ATTRIBUTE, ENDPOINT, HEADER, SHARE,
        ValueKind::{Choice, Count, Duration, Path, Switch, Text},
    },
};
use crate::{
    settings::{LogFormat, LogLevel},
    transport::Transport,
};

settings! { SettingSection::Process;
    /// Threads that serve connections.
    "threads": Count { min: 1, max: 1024 } => Computed("the cores that the process may use"), example("3");

    /// Keeps each thread that serves connections on a core of its own, of those that the process may
    /// use. For machines that do nothing else: the kernel can no longer move a thread away from a busy
    /// core. Linux only.
    "pin": Switch => Is("false"), example("true");

    /// How client connections without TLS are read and written. `epoll`: a read and a write for each
    /// request. `io-uring`: one system call serves many connections, which takes less CPU if many
    /// requests arrive together, and more with a single connection. Where the kernel refuses it, Larder
    /// logs a warning and uses `epoll`. `auto`: `epoll`, and `io-uring` for connections of the Redis
    /// protocol while many requests arrive together, if the kernel allows it. `alternate` is for tests:
    /// connections move between both all the time. io_uring is Linux only. See docs/performance.md.
    "transport": Choice(Transport::NAMES) => Is("auto"), example("io-uring");

    /// Directory for backups of disk stores (`POST /v1/store/backup`). Larder creates it when it is
    /// needed, if the parent directory exists.
    "data-dir": Path => Off, example("/var/lib/larder"), optional;

    /// Maximum time that requests in flight get to finish after SIGTERM or SIGINT.
    "grace": Duration { min: 0, max: DAY } => Is("10s"), example("30s"), live;

    /// New address for Redis clients with maintenance notifications when this process drains. It should
    /// lead to the remaining Larders. Without it, Larder notifies only clients that can connect to
    /// their present address again.
    "moving-endpoint": ENDPOINT => Off, example("larder.example:6380"), optional;

    /// Minimum severity of events that are logged to standard error. It can be changed at run time.
    "log-level": Choice(LogLevel::NAMES) => Is("info"), example("debug"), live;

    /// Format of log events: a line of text or a JSON object.
    "log-format": Choice(LogFormat::NAMES) => Is("text"), example("json");

    /// Logs this share of HTTP requests at level `info`: client, answering node, duration. Requests
    /// that another node samples are logged here, too. At level `debug`, all HTTP requests are logged.
    "access-log": SHARE => Off, example("1%"), optional, live;

    /// Logs HTTP requests that take this long or longer until the client's socket has taken the
    /// response, and those answered with status 500 or above, at level `info`, whatever the share of
    /// `access-log` is.
    "access-log-slower-than": Duration { min: 0, max: DAY } => Off, example("500ms"), optional, live;

    /// The slow log has the Redis commands that took this long or longer, from the beginning to the
    /// reply. `0`: all commands. It has 128 entries; `CONFIG SET slowlog-max-len` changes that until
    /// the next start. See `SLOWLOG`.
    "slowlog-log-slower-than": Duration { min: 0, max: DAY } => Is("10ms"), example("100ms"), optional, live;

    /// URL of an OpenTelemetry collector, to which Larder sends metrics every 10 seconds and traces
    /// every second (OTLP over HTTP, protobuf): `http://HOST:PORT`, or `https://HOST:PORT[?ca=FILE]`
    /// with the authorities to trust in a PEM file instead of those that Mozilla trusts. Only in a
    /// build with the feature `otlp`. See docs/opentelemetry.md.
    "otlp-endpoint": Text => Off, example("http://localhost:4318"), optional;

    /// Share of the HTTP requests without a `traceparent`, and of the fetches for other requests, that
    /// Larder traces. With a `traceparent`, its sender decides. `off`: only those are traced.
    "otlp-sample": SHARE => Is("1%"), example("10%"), optional;

    /// Header fields of each message to `otlp-endpoint`, `Name: value`, or `Name: @FILE` to read the
    /// value from a file at the start. The values are secrets and are never shown.
    "otlp-headers": HEADER => Off, example("Authorization: @/run/secrets/otlp"), optional, many;

    /// Attributes of the resource that Larder's metrics and traces for `otlp-endpoint` belong to, with
    /// percent escapes in the values. `OTEL_RESOURCE_ATTRIBUTES` sets them, too, and
    /// `OTEL_SERVICE_NAME` sets `service.name`. They replace attributes of Larder's own.
    "otlp-resource-attributes": ATTRIBUTE => Off, example("deployment.environment.name=production"), optional, many;

    /// Lets administrators inject faults (`POST /v1/faults`), to rehearse an outage. See docs/faults.md.
    "allow-faults": Switch => Is("false"), example("true");
}
