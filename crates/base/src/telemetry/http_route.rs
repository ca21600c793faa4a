//! Routes whose durations are shown together in the metrics: a fixed list, so that no request adds
//! one.
use super::histogram::{Distribution, Histogram};
use std::ops::Index;

/// Routes that are timed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpRoute {
    Kv,
    Lookup,
    Text,
    Entity,
    Data,
    Peer,
    Item,
    /// Redis over HTTP. Of the fast path the last.
    Redis,
    Mget,
    Keys,
    Health,
    Metrics,
    Admin,
    Other,
}

impl HttpRoute {
    /// In the order of the metrics, which is that of their numbers.
    pub const ALL: [HttpRoute; 14] = [
        HttpRoute::Kv,
        HttpRoute::Lookup,
        HttpRoute::Text,
        HttpRoute::Entity,
        HttpRoute::Data,
        HttpRoute::Peer,
        HttpRoute::Item,
        HttpRoute::Redis,
        HttpRoute::Mget,
        HttpRoute::Keys,
        HttpRoute::Health,
        HttpRoute::Metrics,
        HttpRoute::Admin,
        HttpRoute::Other,
    ];
    /// The first routes are those of the fast path: so many.
    pub const FAST: usize = HttpRoute::Mget as usize;

    /// The value of the label.
    pub fn name(self) -> &'static str {
        match self {
            HttpRoute::Kv => "/v1/kv",
            HttpRoute::Lookup => "/lookup",
            HttpRoute::Text => "/",
            HttpRoute::Entity => "/v0/entity",
            HttpRoute::Data => "/data",
            HttpRoute::Peer => "/_groupcache",
            HttpRoute::Item => "/cache/v1/item",
            HttpRoute::Redis => "/redis",
            HttpRoute::Mget => "/v1/mget",
            HttpRoute::Keys => "/v1/keys",
            HttpRoute::Health => "health",
            HttpRoute::Metrics => "metrics",
            HttpRoute::Admin => "admin",
            HttpRoute::Other => "other",
        }
    }
}

/// How long the requests of each route took. One thread writes, any thread reads.
#[derive(Debug, Default)]
pub struct HttpTimes([Histogram; HttpRoute::ALL.len()]);

impl Index<HttpRoute> for HttpTimes {
    type Output = Histogram;
    #[inline]
    fn index(&self, route: HttpRoute) -> &Histogram {
        &self.0[route as usize]
    }
}

/// The sums of all threads at one moment, in the order of [`HttpRoute::ALL`].
pub type HttpDistributions = [Distribution; HttpRoute::ALL.len()];

impl HttpTimes {
    pub(super) fn add_to(&self, sums: &mut HttpDistributions) {
        sums.iter_mut().zip(&self.0).for_each(|(sum, histogram)| sum.add(histogram));
    }
}

#[cfg(test)]
mod tests {
    use super::HttpRoute;

    #[test]
    fn numbers_are_places_in_the_list() {
        for (at, route) in HttpRoute::ALL.into_iter().enumerate() {
            assert_eq!(route as usize, at);
        }
        assert_eq!(HttpRoute::ALL[HttpRoute::FAST], HttpRoute::Mget);
    }
}
