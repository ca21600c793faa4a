//! What is counted of HTTP requests by route: statuses and bytes.
use super::{http_route::HttpRoute, thread_counter::Counter};
use std::ops::Index;

/// Statuses that are counted one by one; others count together.
const STATUSES: [u16; 27] = [
    200, 201, 202, 204, 206, 207, 301, 302, 304, 400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 416, 422, 429, 431,
    500, 501, 502, 503,
];

/// One thread's counts of one route. That thread writes, any thread reads.
#[derive(Debug, Default)]
pub struct HttpRouteCounter {
    statuses: [Counter; STATUSES.len() + 1],
    /// Bytes of requests.
    pub received: Counter,
    /// Bytes of responses.
    pub sent: Counter,
}

impl HttpRouteCounter {
    /// Counts answered requests.
    pub(super) fn answered(&self, status: u16, requests: u64) {
        let at = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len());
        self.statuses[at].add(requests);
    }
}

/// One thread's counts of all routes.
#[derive(Debug, Default)]
pub struct HttpRouteCounters([HttpRouteCounter; HttpRoute::ALL.len()]);

impl Index<HttpRoute> for HttpRouteCounters {
    type Output = HttpRouteCounter;
    #[inline]
    fn index(&self, route: HttpRoute) -> &HttpRouteCounter {
        &self.0[route as usize]
    }
}

/// The sums of all threads of one route.
#[derive(Debug, Clone, Default)]
pub struct HttpRouteNumbers {
    statuses: [u64; STATUSES.len() + 1],
    pub received: u64,
    pub sent: u64,
}

impl HttpRouteNumbers {
    /// How many requests were answered with each status, as far as there were any; `other` are
    /// those that are rare.
    pub fn by_status(&self) -> impl Iterator<Item = (String, u64)> {
        let name = |at: usize| STATUSES.get(at).map_or_else(|| "other".to_owned(), u16::to_string);
        let counted = self.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(move |(at, count)| (name(at), *count))
    }
}

/// The sums of all threads at one moment, in the order of [`HttpRoute::ALL`].
pub type HttpRouteSums = [HttpRouteNumbers; HttpRoute::ALL.len()];

impl HttpRouteCounters {
    pub(super) fn add_to(&self, sums: &mut HttpRouteSums) {
        for (sum, of) in sums.iter_mut().zip(&self.0) {
            sum.statuses.iter_mut().zip(&of.statuses).for_each(|(sum, count)| *sum += count.get());
            sum.received += of.received.get();
            sum.sent += of.sent.get();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_by_route_and_status() {
        let (one, two) = (HttpRouteCounters::default(), HttpRouteCounters::default());
        one[HttpRoute::Kv].answered(200, 3);
        two[HttpRoute::Kv].answered(200, 1);
        two[HttpRoute::Kv].answered(418, 1);
        two[HttpRoute::Mget].answered(503, 2);
        two[HttpRoute::Mget].sent.add(7);
        let mut sums = HttpRouteSums::default();
        one.add_to(&mut sums);
        two.add_to(&mut sums);
        let of = |route: HttpRoute| sums[route as usize].by_status().collect::<Vec<_>>();
        assert_eq!(of(HttpRoute::Kv), [("200".to_owned(), 4), ("other".to_owned(), 1)]);
        assert_eq!(of(HttpRoute::Mget), [("503".to_owned(), 2)]);
        assert!(of(HttpRoute::Other).is_empty());
        assert_eq!(sums[HttpRoute::Mget as usize].sent, 7);
    }
}
