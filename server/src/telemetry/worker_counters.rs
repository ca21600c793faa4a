//! Counters of one thread, and their sums.
use super::{histogram::Histogram, thread_counter::Counter};

/// Declares the counters once: the struct that threads write, the struct of sums, and the code
/// between them.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One thread's counters: a single writer, read by anyone. Aligned so that no two threads write to the same pair of cache lines.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
            /// From a request's head read to its answer written, HTTP; hits of the fast path would spend more on the clock than on the answer.
            pub http_seconds: Histogram,
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
            /// What was counted since `earlier`.
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
    /// Redis commands carried out (those that were answered with an error included).
    redis_commands,
    /// Error replies to Redis clients.
    redis_errors,
    /// Messages of CLIENT TRACKING told to clients.
    tracking_invalidations,
    /// Messages of channels told to subscribers.
    pubsub_messages,
    /// Redis connections accepted.
    redis_connections_opened,
    /// Redis connections ended.
    redis_connections_closed,
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
    /// TLS handshakes that took longer than `tls-handshake-timeout`.
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
    /// Counts an answered HTTP request.
    pub fn http_answered(&self, status: u16) {
        match status {
            200..=299 => self.http_responses_2xx.add(1),
            300..=399 => self.http_responses_3xx.add(1),
            400..=499 => self.http_responses_4xx.add(1),
            _ => self.http_responses_5xx.add(1),
        }
    }
    /// Counts a connection that a panic ended.
    pub fn connection_panicked(&self) {
        self.panics.add(1);
    }
}
impl CounterSums {
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
        one.redis_commands.add(5);
        two.redis_commands.add(2);
        two.panics.add_shared(1);
        let mut sums = CounterSums::default();
        sums.add(&one);
        sums.add(&two);
        assert_eq!((sums.redis_commands, sums.panics, sums.http_bytes_in), (7, 1, 0));
        let later = CounterSums { redis_commands: 10, ..sums };
        assert_eq!(later.since(&sums), CounterSums { redis_commands: 3, ..CounterSums::default() });
    }

    #[test]
    fn statuses_by_class() {
        let counters = Counters::default();
        for status in [200, 204, 304, 404, 412, 499, 503, 101] {
            counters.http_answered(status);
        }
        let mut sums = CounterSums::default();
        sums.add(&counters);
        assert_eq!(sums.http_requests(), 8);
        assert_eq!((sums.http_responses_2xx, sums.http_responses_3xx), (2, 1));
        assert_eq!((sums.http_responses_4xx, sums.http_responses_5xx), (3, 2));
    }
}
