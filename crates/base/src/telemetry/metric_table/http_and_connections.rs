//! HTTP, connections of both protocols, limits, TLS, and faults to order.
use super::metric_family::{
    MetricFamily,
    MetricKind::{Counter, Gauge, Histogram},
};
use crate::telemetry::http_route::HttpRoute;

pub(super) const HTTP_AND_CONNECTIONS: &[MetricFamily] = &[
    sums!(
        "larder_http_responses_total",
        "class",
        ["2xx" => http_responses_2xx, "3xx" => http_responses_3xx, "4xx" => http_responses_4xx, "5xx" => http_responses_5xx],
        "HTTP responses, by class of the status."
    ),
    MetricFamily {
        name: "larder_http_requests_total",
        kind: Counter,
        help: "HTTP requests answered, by route and status as far as there were any.",
        read: |s, to| {
            for (route, numbers) in HttpRoute::ALL.iter().zip(&s.http_routes) {
                for (status, count) in numbers.by_status() {
                    to.number(&[("route", route.name()), ("status", status.as_str())], count);
                }
            }
        },
    },
    MetricFamily {
        name: "larder_http_request_bytes_total",
        kind: Counter,
        help: "Bytes of HTTP requests (received) and of their responses (sent), heads included, by route.",
        read: |s, to| {
            for (route, numbers) in HttpRoute::ALL.iter().zip(&s.http_routes) {
                for (direction, bytes) in [("received", numbers.received), ("sent", numbers.sent)] {
                    if numbers.received + numbers.sent > 0 {
                        to.number(&[("route", route.name()), ("direction", direction)], bytes);
                    }
                }
            }
        },
    },
    MetricFamily {
        name: "larder_http_request_duration_seconds",
        kind: Histogram,
        help: "Time from reading an HTTP request's head to writing its response, by route as far as it had requests.",
        read: |s, to| {
            for (route, times) in HttpRoute::ALL.iter().zip(&s.http_times).filter(|(_, times)| times.count > 0) {
                to.distribution(&[("route", route.name())], times);
            }
        },
    },
    sums!(
        "larder_connections_opened_total",
        "protocol",
        ["http" => http_connections_opened, "redis" => redis_connections_opened, "memcached" => memcached_connections_opened],
        "Connections accepted."
    ),
    sums!(
        "larder_connections_closed_total",
        "protocol",
        ["http" => http_connections_closed, "redis" => redis_connections_closed, "memcached" => memcached_connections_closed],
        "Connections closed."
    ),
    MetricFamily {
        name: "larder_connections",
        kind: Gauge,
        help: "Open connections.",
        read: |s, to| {
            // The two counters are read one after the other: a connection that ends in between must not count
            // below zero.
            let open = |opened: u64, closed: u64| opened.saturating_sub(closed);
            let s = &s.sums;
            to.number(&[("protocol", "http")], open(s.http_connections_opened, s.http_connections_closed));
            to.number(&[("protocol", "redis")], open(s.redis_connections_opened, s.redis_connections_closed));
            to.number(
                &[("protocol", "memcached")],
                open(s.memcached_connections_opened, s.memcached_connections_closed),
            );
        },
    },
    sums!(
        "larder_io_uring_connection_events_total",
        "event",
        ["begun" => io_uring_connections_begun, "ended" => io_uring_connections_ended],
        "Connections that io_uring began to serve, and those that it serves no more: closed, or moved to epoll."
    ),
    MetricFamily {
        name: "larder_io_uring_connections",
        kind: Gauge,
        help: "Open connections that are read and written by io_uring (setting transport).",
        read: |s, to| {
            let s = &s.sums;
            to.number(&[], s.io_uring_connections_begun.saturating_sub(s.io_uring_connections_ended));
        },
    },
    sums!(
        "larder_transport_moves_total",
        "to",
        ["io_uring" => moves_to_io_uring, "epoll" => moves_to_epoll],
        "Moves of connections between epoll and io_uring (transport = auto)."
    ),
    MetricFamily {
        name: "larder_worker_connections",
        kind: Gauge,
        help: "Open connections, by the worker (core) that serves them.",
        read: |s, to| {
            for (id, open) in s.worker_connections.iter().enumerate() {
                to.number(&[("worker", &id.to_string())], *open);
            }
        },
    },
    sum!("larder_connections_refused_total", connections_refused, "Connections refused at max-connections."),
    sums!(
        "larder_received_bytes_total",
        "protocol",
        ["http" => http_bytes_in, "redis" => redis_bytes_in, "memcached" => memcached_bytes_in],
        "Bytes read from clients."
    ),
    sums!(
        "larder_sent_bytes_total",
        "protocol",
        ["http" => http_bytes_out, "redis" => redis_bytes_out, "memcached" => memcached_bytes_out],
        "Bytes written to clients."
    ),
    sums!(
        "larder_throttled_total",
        "protocol",
        ["http" => http_throttled, "redis" => redis_throttled, "memcached" => memcached_throttled],
        "Requests refused by the throttle."
    ),
    sums!(
        "larder_refused_total",
        "reason",
        ["login" => failed_logins, "rules" => user_refusals],
        "Failed logins, and commands that the user's rules refused."
    ),
    sums!(
        "larder_overload_refused_total",
        "work",
        ["http" => http_overloaded, "redis" => redis_overloaded, "memcached" => memcached_overloaded, "fetch" => overloaded_fetches],
        "Requests, and fetches of misses, refused because requests waited longer than max-queue-delay."
    ),
    sums!(
        "larder_protocol_errors_total",
        "protocol",
        ["http" => http_protocol_errors, "redis" => redis_protocol_errors],
        "Connections closed because of a protocol error."
    ),
    sums!(
        "larder_cross_protocol_total",
        "request",
        ["http" => redis_foreign_http, "tls" => redis_foreign_tls, "proxy" => redis_foreign_proxy],
        "Redis connections closed because the client sent a request of another protocol."
    ),
    sums!(
        "larder_proxy_headers_total",
        "result",
        [
            "read" => proxy_headers_read,
            "missing" => proxy_headers_missing,
            "malformed" => proxy_headers_malformed,
            "timeout" => proxy_headers_timed_out
        ],
        "Connections of trusted proxies, by result of their PROXY header; all results except `read` closed the connection."
    ),
    sums!(
        "larder_tls_handshakes_total",
        "session",
        ["new" => tls_handshakes_full, "resumed" => tls_handshakes_resumed],
        "TLS handshakes that succeeded."
    ),
    sums!(
        "larder_tls_failed_handshakes_total",
        "reason",
        ["failed" => tls_failed_handshakes, "timeout" => tls_handshakes_timed_out, "not_tls" => tls_not_spoken],
        "TLS handshakes that failed."
    ),
    MetricFamily {
        name: "larder_tls_certificate_expiry_timestamp_seconds",
        kind: Gauge,
        help: "Expiry time of a certificate of the TLS listeners, in seconds since the Unix epoch.",
        read: |s, to| {
            for certificate in &s.tls.certificates {
                to.number(&[("file", &certificate.file)], certificate.ends);
            }
        },
    },
    MetricFamily {
        name: "larder_tls_reloads_total",
        kind: Counter,
        help: "Reloads of changed files of certificates, keys and authorities.",
        read: |s, to| {
            to.number(&[("result", "ok")], s.tls.reloads);
            to.number(&[("result", "refused")], s.tls.failed_reloads);
        },
    },
    MetricFamily {
        name: "larder_faults",
        kind: Gauge,
        help: "Faults in force that were ordered with POST /v1/faults.",
        read: |s, to| s.faults.active.iter().for_each(|(at, count)| to.number(&[("at", at)], *count)),
    },
    MetricFamily {
        name: "larder_faults_struck_total",
        kind: Counter,
        help: "Requests and connections that faults in force have delayed, failed or cut.",
        read: |s, to| s.faults.struck.iter().for_each(|(at, count)| to.number(&[("at", at)], *count)),
    },
    sum!("larder_panics_total", panics, "Connections closed by a panic."),
];
