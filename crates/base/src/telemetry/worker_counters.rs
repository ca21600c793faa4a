//! Counters of one thread, and their sums.
use super::{
    http_route::{HttpRoute, HttpTimes},
    http_route_counts::HttpRouteCounters,
    thread_counter::{Counter, Maximum},
};

/// Declares the counters once: the struct that threads write, the struct of sums, and the code
/// between them.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One thread's counters: a single writer, read by anyone. Aligned so that no two threads write to the same pair of cache lines.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
            /// From a request's head read to its answer written, HTTP.
            pub http_times: HttpTimes,
            /// Statuses and bytes of HTTP requests, by route.
            pub http_routes: HttpRouteCounters,
            /// The longest turn of the thread, CPU microseconds.
            pub longest_turn: Maximum,
        }
        /// The sums of all threads' counters at one moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct CounterSums {
            $($(#[$doc])* pub $name: u64,)*
        }
        impl CounterSums {
            /// Adds one thread's counters.
            pub fn add(&mut self, counters: &Counters) {
                $(self.$name = self.$name.wrapping_add(counters.$name.get());)*
            }
            #[must_use]
            pub fn since(&self, earlier: &CounterSums) -> CounterSums {
                CounterSums { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }
        }
        #[cfg(test)]
        impl Counters {
            /// Adds a different number to each, and says which.
            pub(super) fn fill(&self) -> Vec<(&'static str, u64)> {
                let mut filled = Vec::new();
                $(
                    let n = 1001 + filled.len() as u64;
                    self.$name.add(n);
                    filled.push((stringify!($name), n));
                )*
                filled
            }
        }
    };
}

counters! {
    /// Error replies to Redis clients, by their first word: `ERR`.
    redis_errors_err,
    /// `ERR source …`: the source did not answer.
    redis_errors_source,
    redis_errors_wrongtype,
    redis_errors_noauth,
    redis_errors_wrongpass,
    redis_errors_noperm,
    redis_errors_oom,
    redis_errors_readonly,
    redis_errors_execabort,
    redis_errors_noscript,
    /// Any other first word.
    redis_errors_other,
    /// Messages of CLIENT TRACKING told to clients.
    tracking_invalidations,
    /// Messages of channels told to subscribers.
    pubsub_messages,
    /// Redis connections accepted.
    redis_connections_opened,
    /// Redis connections ended.
    redis_connections_closed,
    /// Connections that io_uring began to serve: new ones, and those that moved to it.
    io_uring_connections_begun,
    /// Connections that io_uring no longer serves.
    io_uring_connections_ended,
    /// Connections that moved from epoll to io_uring.
    moves_to_io_uring,
    /// Connections that moved from io_uring to epoll.
    moves_to_epoll,
    /// Bytes read from Redis clients.
    redis_bytes_in,
    /// Bytes written to Redis clients.
    redis_bytes_out,
    /// Logins that failed: AUTH, HELLO, HTTP credentials.
    failed_logins,
    /// Commands and requests that the rules of their user refused.
    user_refusals,
    /// Redis commands refused by the throttle.
    redis_throttled,
    /// Redis connections closed for a protocol error.
    redis_protocol_errors,
    /// Redis connections closed because an HTTP request arrived.
    redis_foreign_http,
    /// Redis connections closed because a TLS handshake arrived.
    redis_foreign_tls,
    /// Redis connections closed because a PROXY header arrived from an address that may send none.
    redis_foreign_proxy,
    /// HTTP requests, by the class of their status.
    http_responses_2xx,
    /// Redirections and 304.
    http_responses_3xx,
    /// The client's fault.
    http_responses_4xx,
    /// The server's or the source's fault; throttled requests too.
    http_responses_5xx,
    /// HTTP connections accepted, admin included.
    http_connections_opened,
    /// HTTP connections ended.
    http_connections_closed,
    /// Bytes read from HTTP clients.
    http_bytes_in,
    /// Bytes written to HTTP clients.
    http_bytes_out,
    /// HTTP requests refused by the throttle.
    http_throttled,
    /// Redis commands refused because the core was overloaded.
    redis_overloaded,
    /// HTTP requests refused because the core was overloaded.
    http_overloaded,
    /// memcached connections accepted.
    memcached_connections_opened,
    /// memcached connections ended.
    memcached_connections_closed,
    /// Bytes read from memcached clients.
    memcached_bytes_in,
    /// Bytes written to memcached clients.
    memcached_bytes_out,
    /// Keys that memcached clients asked for: `get`, `mg` and related commands.
    memcached_gets,
    /// Those that had no value.
    memcached_get_misses,
    /// Keys that memcached clients asked for and gave a new expiry: `gat`, `touch`.
    memcached_touches,
    /// Values that memcached clients stored: `set`, `ms` and related commands.
    memcached_sets,
    /// `delete`, `md`.
    memcached_deletes,
    /// `incr`, `decr`, `ma`.
    memcached_arithmetic,
    /// `flush_all`.
    memcached_flushes,
    /// Any other memcached command.
    memcached_others,
    /// memcached commands that were answered with an error.
    memcached_errors,
    /// memcached commands refused by the throttle.
    memcached_throttled,
    /// memcached commands refused because the core was overloaded.
    memcached_overloaded,
    /// memcached connections closed because another protocol arrived.
    memcached_foreign,
    /// Fetches refused because the core was overloaded.
    overloaded_fetches,
    /// HTTP connections closed because what came was not HTTP.
    http_protocol_errors,
    /// TLS handshakes with a new session.
    tls_handshakes_full,
    /// TLS handshakes that resumed a session.
    tls_handshakes_resumed,
    /// TLS handshakes that failed: a certificate, a version, a message.
    tls_failed_handshakes,
    /// TLS handshakes that took longer than `header-timeout`.
    tls_handshakes_timed_out,
    /// Connections to TLS listeners whose client did not speak TLS.
    tls_not_spoken,
    /// Headers of the PROXY protocol that were read.
    proxy_headers_read,
    /// Connections of trusted proxies that were refused because they began without a header.
    proxy_headers_missing,
    /// Connections of trusted proxies that were refused because of what was in the header.
    proxy_headers_malformed,
    /// Connections of trusted proxies that were refused because the header did not come within `header-timeout`.
    proxy_headers_timed_out,
    /// Connections refused at `max-connections`.
    connections_refused,
    /// Connections that a panic ended.
    panics,
}

impl Counters {
    /// Counts an error reply to a Redis client. `text` begins with the error's first word.
    #[cold]
    pub fn redis_error(&self, text: &[u8]) {
        let counter = match text.split(|byte| *byte == b' ').next().unwrap_or_default() {
            b"ERR" if text.starts_with(b"ERR source ") => &self.redis_errors_source,
            b"ERR" => &self.redis_errors_err,
            b"WRONGTYPE" => &self.redis_errors_wrongtype,
            b"NOAUTH" => &self.redis_errors_noauth,
            b"WRONGPASS" => &self.redis_errors_wrongpass,
            b"NOPERM" => &self.redis_errors_noperm,
            b"OOM" => &self.redis_errors_oom,
            b"READONLY" => &self.redis_errors_readonly,
            b"EXECABORT" => &self.redis_errors_execabort,
            b"NOSCRIPT" => &self.redis_errors_noscript,
            _ => &self.redis_errors_other,
        };
        counter.add(1);
    }
    /// Counts an answered HTTP request.
    pub fn http_answered(&self, route: HttpRoute, status: u16) {
        self.http_routes[route].answered(status, 1);
        match status {
            200..=299 => self.http_responses_2xx.add(1),
            300..=399 => self.http_responses_3xx.add(1),
            400..=499 => self.http_responses_4xx.add(1),
            _ => self.http_responses_5xx.add(1),
        }
    }
    /// Counts so many answered HTTP requests that memory had the value for.
    pub fn http_hits(&self, route: HttpRoute, hits: u32) {
        self.http_routes[route].answered(200, hits.into());
        self.http_responses_2xx.add(hits.into());
    }
    /// Counts a connection that a panic ended.
    pub fn connection_panicked(&self) {
        self.panics.add(1);
    }
}
impl CounterSums {
    /// Error replies to Redis clients by kind: their first word, `source` or `other`.
    pub fn redis_errors_by_kind(&self) -> [(&'static str, u64); 11] {
        [
            ("ERR", self.redis_errors_err),
            ("source", self.redis_errors_source),
            ("WRONGTYPE", self.redis_errors_wrongtype),
            ("NOAUTH", self.redis_errors_noauth),
            ("WRONGPASS", self.redis_errors_wrongpass),
            ("NOPERM", self.redis_errors_noperm),
            ("OOM", self.redis_errors_oom),
            ("READONLY", self.redis_errors_readonly),
            ("EXECABORT", self.redis_errors_execabort),
            ("NOSCRIPT", self.redis_errors_noscript),
            ("other", self.redis_errors_other),
        ]
    }
    /// All error replies to Redis clients.
    pub fn redis_errors(&self) -> u64 {
        self.redis_errors_by_kind().iter().map(|(_, count)| count).sum()
    }
    /// memcached commands; a read counts once for each key.
    pub fn memcached_commands(&self) -> u64 {
        self.memcached_gets
            + self.memcached_sets
            + self.memcached_touches
            + self.memcached_deletes
            + self.memcached_arithmetic
            + self.memcached_flushes
            + self.memcached_others
    }
    /// HTTP requests answered.
    pub fn http_requests(&self) -> u64 {
        self.http_responses_2xx + self.http_responses_3xx + self.http_responses_4xx + self.http_responses_5xx
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_up_and_count_from_a_moment() {
        let (one, two) = (Counters::default(), Counters::default());
        one.redis_throttled.add(5);
        two.redis_throttled.add(2);
        two.panics.add_shared(1);
        let mut sums = CounterSums::default();
        sums.add(&one);
        sums.add(&two);
        assert_eq!((sums.redis_throttled, sums.panics, sums.http_bytes_in), (7, 1, 0));
        let later = CounterSums { redis_throttled: 10, ..sums };
        assert_eq!(later.since(&sums), CounterSums { redis_throttled: 3, ..CounterSums::default() });
    }

    #[test]
    fn errors_by_kind() {
        let counters = Counters::default();
        for text in ["ERR syntax error", "ERR", "ERR source unavailable: x", "WRONGTYPE a", "MOVED 1 a:1", ""] {
            counters.redis_error(text.as_bytes());
        }
        let mut sums = CounterSums::default();
        sums.add(&counters);
        let some: Vec<_> = sums.redis_errors_by_kind().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(some, [("ERR", 2), ("source", 1), ("WRONGTYPE", 1), ("other", 2)]);
        assert_eq!(sums.redis_errors(), 6);
    }

    #[test]
    fn statuses_by_class() {
        let counters = Counters::default();
        for status in [200, 204, 304, 404, 412, 499, 503, 101] {
            counters.http_answered(HttpRoute::Kv, status);
        }
        let mut sums = CounterSums::default();
        sums.add(&counters);
        assert_eq!(sums.http_requests(), 8);
        assert_eq!((sums.http_responses_2xx, sums.http_responses_3xx), (2, 1));
        assert_eq!((sums.http_responses_4xx, sums.http_responses_5xx), (3, 2));
    }
}
