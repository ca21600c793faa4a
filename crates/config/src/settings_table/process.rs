//! Settings of the section “Process”.
use super::{
    quantities::DAY,
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is},
        SettingSpec,
    },
    value_kind::ValueKind,
};
use crate::{
    settings::{LogFormat, LogLevel},
    transport::Transport,
};

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Process);

pub(super) const PROCESS: &[SettingSpec] = &[
    SettingSpec {
        name: "threads",
        kind: ValueKind::Count { min: 1, max: 1024 },
        default: Computed("the cores that the process may use"),
        example: "3",
        help: "Threads that serve connections.",
        ..ROW
    },
    SettingSpec {
        name: "pin",
        kind: ValueKind::Switch,
        default: Is("false"),
        example: "true",
        help: "Keeps each thread that serves connections on a core of its own, of those that the process \
               may use. For machines that do nothing else: the kernel can no longer move a thread away from \
               a busy core. Linux only.",
        ..ROW
    },
    SettingSpec {
        name: "transport",
        kind: ValueKind::Choice(Transport::NAMES),
        default: Is("auto"),
        example: "io-uring",
        help: "How client connections without TLS are read and written. `epoll`: a read and a write for each \
               request. `io-uring`: one system call serves many connections, which takes less CPU if many \
               requests arrive together, and more with a single connection. Where the kernel refuses it, Larder \
               logs a warning and uses `epoll`. `auto`: `epoll`, and `io-uring` for connections of the Redis \
               protocol while many requests arrive together, if the kernel allows it. `alternate` is for tests: \
               connections move between both all the time. io_uring is Linux only. See docs/performance.md.",
        ..ROW
    },
    SettingSpec {
        name: "data-dir",
        kind: ValueKind::Path,
        optional: true,
        example: "/var/lib/larder",
        help: "Directory for backups of disk stores (`POST /v1/store/backup`). Larder creates it \
               when it is needed, if the parent directory exists.",
        ..ROW
    },
    SettingSpec {
        name: "grace",
        kind: ValueKind::Duration { min: 0, max: DAY },
        default: Is("10s"),
        live: true,
        example: "30s",
        help: "Maximum time that requests in flight get to finish after SIGTERM or SIGINT.",
        ..ROW
    },
    SettingSpec {
        name: "moving-endpoint",
        kind: ValueKind::Endpoint,
        optional: true,
        example: "larder.example:6380",
        help: "New address for Redis clients with maintenance notifications when this process drains. It should lead to the remaining Larders. Without it, Larder notifies only clients that can connect to their present address again.",
        ..ROW
    },
    SettingSpec {
        name: "log-level",
        kind: ValueKind::Choice(LogLevel::NAMES),
        default: Is("info"),
        live: true,
        example: "debug",
        help: "Minimum severity of events that are logged to standard error. It can be changed at \
               run time.",
        ..ROW
    },
    SettingSpec {
        name: "log-format",
        kind: ValueKind::Choice(LogFormat::NAMES),
        default: Is("text"),
        example: "json",
        help: "Format of log events: a line of text or a JSON object.",
        ..ROW
    },
    SettingSpec {
        name: "access-log",
        kind: ValueKind::Share,
        optional: true,
        live: true,
        example: "1%",
        help: "Logs this share of HTTP requests at level `info`: client, answering node, duration. \
               Requests that another node samples are logged here, too. At level `debug`, all HTTP \
               requests are logged.",
        ..ROW
    },
    SettingSpec {
        name: "access-log-slower-than",
        kind: ValueKind::Duration { min: 0, max: DAY },
        optional: true,
        live: true,
        example: "500ms",
        help: "Logs HTTP requests that take this long or longer until the client's socket has taken the \
               response, and those answered with status 500 or above, at level `info`, whatever the \
               share of `access-log` is.",
        ..ROW
    },
    SettingSpec {
        name: "slowlog-log-slower-than",
        kind: ValueKind::Duration { min: 0, max: DAY },
        default: Is("10ms"),
        optional: true,
        live: true,
        example: "100ms",
        help: "The slow log has the Redis commands that took this long or longer, from the beginning \
               to the reply. `0`: all commands. It has 128 entries; `CONFIG SET slowlog-max-len` changes \
               that until the next start. See `SLOWLOG`.",
        ..ROW
    },
    SettingSpec {
        name: "otlp-endpoint",
        kind: ValueKind::Text,
        optional: true,
        example: "http://localhost:4318",
        help: "URL of an OpenTelemetry collector, to which Larder sends metrics every 10 seconds and \
               traces every second (OTLP over HTTP, protobuf): `http://HOST:PORT`, or \
               `https://HOST:PORT[?ca=FILE]` with the authorities to trust in a PEM file instead of those \
               that Mozilla trusts. Only in a build with the feature `otlp`. See docs/opentelemetry.md.",
        ..ROW
    },
    SettingSpec {
        name: "otlp-sample",
        kind: ValueKind::Share,
        default: Is("1%"),
        optional: true,
        example: "10%",
        help: "Share of the HTTP requests without a `traceparent`, and of the fetches for other \
               requests, that Larder traces. With a `traceparent`, its sender decides. `off`: only \
               those are traced.",
        ..ROW
    },
    SettingSpec {
        name: "otlp-headers",
        kind: ValueKind::Header,
        optional: true,
        many: true,
        example: "Authorization: @/run/secrets/otlp",
        help: "Header fields of each message to `otlp-endpoint`, `Name: value`, or `Name: @FILE` to \
               read the value from a file at the start. The values are secrets and are never shown.",
        ..ROW
    },
    SettingSpec {
        name: "otlp-service-name",
        kind: ValueKind::Text,
        optional: true,
        example: "cart-cache",
        help: "`service.name` of the metrics and traces for `otlp-endpoint`. `OTEL_SERVICE_NAME` sets \
               it, too. Default: that of `otlp-resource-attributes`, or `larder`.",
        ..ROW
    },
    SettingSpec {
        name: "otlp-resource-attributes",
        kind: ValueKind::Attribute,
        optional: true,
        many: true,
        example: "deployment.environment.name=production",
        help: "Attributes of the resource that Larder's metrics and traces for `otlp-endpoint` belong \
               to, with percent escapes in the values. `OTEL_RESOURCE_ATTRIBUTES` sets them, too. \
               They replace attributes of Larder's own.",
        ..ROW
    },
    SettingSpec {
        name: "allow-faults",
        kind: ValueKind::Switch,
        default: Is("false"),
        example: "true",
        help: "Lets administrators order faults (`POST /v1/faults`), to rehearse an outage. See \
               docs/faults.md.",
        ..ROW
    },
];
