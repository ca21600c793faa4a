//! One core's view of all addresses of the origin: which of them a request goes to, and which are
//! out.
use super::{
    connection_pool::ConnectionPool, origin_connection::Connection, origin_settings::OriginSettings,
    request_deadline::RequestDeadline,
};
use crate::{
    jittered_wait::jittered,
    source_error::SourceError,
    source_health::{ConnectionHealth, ConnectionState},
};
use larder_base::outbound::Stream;
use larder_engine::Millis;
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};
use tokio::time::sleep;

/// Before the first probe of an address that is out; each further one waits twice as long.
const FIRST_PROBE: Duration = Duration::from_millis(500);
/// The longest wait between two probes.
const LAST_PROBE: Duration = Duration::from_secs(8);

/// The addresses of the origin.
pub(super) struct AddressChoice {
    pub(super) settings: Arc<OriginSettings>,
    pools: Vec<ConnectionPool>,
    /// Where the next choice begins, so that equals take turns.
    next: Cell<usize>,
    /// Up while any address is reached, down when all are out.
    health: RefCell<ConnectionHealth>,
    was_up: Cell<bool>,
}

/// The addresses that one request has tried already.
#[derive(Default, Clone, Copy)]
pub(super) struct Tried(u32);

impl AddressChoice {
    pub(super) fn new(settings: Arc<OriginSettings>) -> AddressChoice {
        AddressChoice {
            pools: (0..settings.addresses.len()).map(|index| ConnectionPool::new(settings.clone(), index)).collect(),
            next: Cell::new(0),
            health: RefCell::new(ConnectionHealth::new(settings.health.clone())),
            was_up: Cell::new(false),
            settings,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.pools.len()
    }

    pub(super) fn pool(&self, index: usize) -> &ConnectionPool {
        &self.pools[index]
    }

    /// The address with the fewest requests of this core under way, of those not tried yet; one
    /// that is out only if no other is left. None that asked to be left alone. Whether all that
    /// are left did, is for [`rest_of_all`](AddressChoice::rest_of_all) to say.
    pub(super) fn choose(&self, tried: &mut Tried, now: Millis) -> Option<&ConnectionPool> {
        let count = self.pools.len();
        let first = self.next.get();
        let load = |index: &usize| {
            let pool = &self.pools[*index];
            (pool.is_out.get(), pool.under_way.get())
        };
        let candidates = (0..count).map(|step| (first + step) % count);
        let index = candidates
            .filter(|index| tried.0 & (1 << index) == 0 && self.pools[*index].address().rests(now).is_none())
            .min_by_key(load)?;
        self.next.set((index + 1) % count);
        tried.0 |= 1 << index;
        Some(&self.pools[index])
    }

    /// When the first address may be asked again, if all asked to be left alone.
    pub(super) fn rest_of_all(&self, now: Millis) -> Option<Millis> {
        let rests = self.pools.iter().map(|pool| pool.address().rests(now));
        rests.collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// Makes a connection and notes whether the address is out.
    ///
    /// # Errors
    /// As [`ConnectionPool::connect`].
    pub(super) async fn connect(
        &self,
        pool: &ConnectionPool,
        deadline: RequestDeadline,
    ) -> Result<Connection, SourceError> {
        let connected = pool.connect(deadline).await;
        self.note(pool, &connected);
        connected
    }

    /// Like `connect`, without hyper.
    ///
    /// # Errors
    /// As [`ConnectionPool::connect`].
    pub(super) async fn connect_stream(
        &self,
        pool: &ConnectionPool,
        deadline: RequestDeadline,
    ) -> Result<Stream, SourceError> {
        let connected = pool.connect_stream(deadline).await;
        self.note(pool, &connected);
        connected
    }

    /// Makes a connection that is idle until a request needs one.
    ///
    /// # Errors
    /// As [`ConnectionPool::connect`].
    pub(super) async fn reach(&self, pool: &ConnectionPool, deadline: RequestDeadline) -> Result<(), SourceError> {
        match pool.address().tls {
            None => pool.give_back_stream(self.connect_stream(pool, deadline).await?),
            Some(_) => pool.give_back(self.connect(pool, deadline).await?),
        }
        Ok(())
    }

    fn note<T>(&self, pool: &ConnectionPool, connected: &Result<T, SourceError>) {
        let settings = &self.settings;
        let name = &pool.address().name;
        match connected {
            Ok(_) => {
                let was_out = pool.is_out.replace(false);
                let is_first = self.health.borrow_mut().set(ConnectionState::Up);
                if (is_first || was_out) && pool.in_logs.borrow_mut().set(ConnectionState::Up) {
                    tracing::info!(source = %name, "source connected");
                }
                if is_first && self.was_up.replace(true) {
                    settings.health.note_reconnect();
                }
            }
            Err(error) => {
                if let SourceError::Unavailable(reason) = error {
                    settings.health.note_error(reason);
                }
                if !pool.is_out.replace(true) {
                    match pool.in_logs.borrow_mut().set(ConnectionState::Down) {
                        true => tracing::warn!(source = %name, reason = %error, "source is down"),
                        false => tracing::debug!(source = %name, reason = %error, "the source cannot be reached"),
                    }
                    pool.went_out.notify_one();
                }
                if self.pools.iter().all(|pool| pool.is_out.get()) {
                    self.health.borrow_mut().set(ConnectionState::Down);
                }
            }
        }
    }

    /// Connects to an address at the start, and again and again while it is out: so that its health
    /// does not depend on clients that ask.
    pub(super) async fn watch(&self, index: usize) {
        let pool = &self.pools[index];
        let mut wait = FIRST_PROBE;
        loop {
            // Requests may have found it again meanwhile; another connection does no harm.
            match self.reach(pool, RequestDeadline::after(self.settings.limits.timeout)).await {
                Ok(()) => {
                    wait = FIRST_PROBE;
                    while !pool.is_out.get() {
                        pool.went_out.notified().await;
                    }
                }
                Err(_) => {
                    // Not all cores at the same moment.
                    sleep(jittered(wait)).await;
                    wait = LAST_PROBE.min(wait * 2);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{source_health::SourceHealth, source_limits::SourceLimits};
    use larder_base::buffers::Buffers;
    use larder_config::SourceUrl;

    const LIMITS: SourceLimits = SourceLimits { adaptive: true, ..SourceLimits::SMALLEST };

    fn choice() -> AddressChoice {
        let Ok(SourceUrl::Http(url)) = "http://a,b,c/{key}".parse() else { panic!("a URL") };
        let settings =
            OriginSettings::new(&url, LIMITS, SourceHealth::default(), Buffers::unbounded()).expect("settings");
        AddressChoice::new(Arc::new(settings))
    }
    /// What requests in turn would choose, while none ends.
    fn chosen(choice: &AddressChoice, requests: usize) -> String {
        let mut open = Vec::new();
        (0..requests)
            .map(|_| {
                let pool = choice.choose(&mut Tried::default(), 1000).expect("an address");
                open.push(pool.begin());
                pool.address().host.clone()
            })
            .collect()
    }

    #[test]
    fn the_least_loaded_that_is_not_out() {
        let choice = choice();
        assert_eq!(chosen(&choice, 6), "abcabc");
        let busy = [choice.pools[0].begin(), choice.pools[0].begin(), choice.pools[1].begin()];
        assert_eq!(chosen(&choice, 6), "cbcabc");
        drop(busy);
        choice.pools[1].is_out.set(true);
        assert_eq!(chosen(&choice, 4), "acac");
        choice.pools[0].address().rest_until(1001);
        assert_eq!(chosen(&choice, 3), "ccc", "out is worse than busy");
        assert_eq!(choice.rest_of_all(1000), None);
        choice.pools[2].address().rest_until(1005);
        assert_eq!(chosen(&choice, 1), "b", "out is better than none");
        choice.pools[1].address().rest_until(1003);
        assert!(choice.choose(&mut Tried::default(), 1000).is_none());
        assert_eq!((choice.rest_of_all(1000), choice.rest_of_all(1001)), (Some(1001), None));
        assert!(choice.choose(&mut Tried::default(), 1001).is_some(), "its rest is over");
    }

    #[test]
    fn a_request_tries_each_once() {
        let choice = choice();
        let mut tried = Tried::default();
        let mut hosts: Vec<_> =
            std::iter::from_fn(|| choice.choose(&mut tried, 0)).map(|pool| &*pool.address().host).collect();
        hosts.sort_unstable();
        assert_eq!(hosts, ["a", "b", "c"]);
    }
}
