//! Requests per second: per client address, in total, and per client address for the admin and stats routes. Token buckets by `governor` (GCRA).
//!
//! Every request and every Redis command counts, whatever its outcome. The keyed state holds one small record per address
//! seen within the time that a bucket takes to fill up; [`Throttle::forget_idle`] drops the others once a second.
use crate::config::{Rate, Settings};
use arc_swap::ArcSwapOption;
use governor::{
    DefaultDirectRateLimiter, DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter,
    clock::{Clock, DefaultClock, QuantaInstant},
};
use std::{
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Which budget a request draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Keys and values, over either protocol.
    Data,
    /// Admin and stats routes.
    Admin,
}

/// A refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttled {
    /// The setting whose limit was reached, by its configuration name.
    pub setting: &'static str,
    /// When a retry will be let through, if nobody else comes first.
    pub retry_after: Duration,
}

/// The limits on requests. They change at run time, all at once.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Whether there is any: what a request looks at where there is none.
    is_on: AtomicBool,
    limiters: ArcSwapOption<Limiters>,
}

#[derive(Debug)]
struct Limiters {
    clock: DefaultClock,
    client: Option<DefaultKeyedRateLimiter<IpAddr>>,
    total: Option<DefaultDirectRateLimiter>,
    admin: Option<DefaultKeyedRateLimiter<IpAddr>>,
}

impl Throttle {
    /// The limits of `settings`.
    pub fn new(settings: &Settings) -> Throttle {
        let throttle = Throttle::default();
        throttle.replace(settings);
        throttle
    }

    /// The limits of `settings` from now on. Each client begins with a full budget.
    pub fn replace(&self, settings: &Settings) {
        let keyed = |rate: Option<Rate>| rate.map(|rate| RateLimiter::keyed(quota(rate)));
        let limiters = Limiters {
            clock: DefaultClock::default(),
            client: keyed(settings.throttle_client),
            total: (settings.throttle_total).map(|rate| RateLimiter::direct(quota(rate))),
            admin: keyed(settings.throttle_admin),
        };
        let is_on = limiters.client.is_some() || limiters.total.is_some() || limiters.admin.is_some();
        self.limiters.store(is_on.then(|| Arc::new(limiters)));
        self.is_on.store(is_on, Relaxed);
    }

    /// Whether any request is limited.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Counts one request from `peer`; an error if it must be refused. A refused request does not draw on the budget
    /// that refused it; one that the total budget refused has drawn on the client's own.
    #[inline]
    pub fn check(&self, scope: Scope, peer: IpAddr) -> Result<(), Throttled> {
        match self.is_on() {
            false => Ok(()),
            true => self.limiters.load().as_ref().map_or(Ok(()), |limiters| limiters.check(scope, peer)),
        }
    }

    /// Drops the state of clients whose bucket is full again. Call it about once a second.
    pub fn forget_idle(&self) {
        if let Some(limiters) = &*self.limiters.load() {
            for keyed in limiters.keyed_by_client() {
                keyed.retain_recent();
                keyed.shrink_to_fit();
            }
        }
    }

    /// Client addresses remembered at the moment.
    pub fn remembered(&self) -> usize {
        self.limiters.load().as_ref().map_or(0, |limiters| limiters.keyed_by_client().map(|keyed| keyed.len()).sum())
    }
}

impl Limiters {
    fn keyed_by_client(&self) -> impl Iterator<Item = &DefaultKeyedRateLimiter<IpAddr>> {
        [&self.client, &self.admin].into_iter().flatten()
    }

    fn check(&self, scope: Scope, peer: IpAddr) -> Result<(), Throttled> {
        match scope {
            Scope::Admin => self.keyed(&self.admin, peer, "throttle-admin"),
            Scope::Data => {
                self.keyed(&self.client, peer, "throttle")?;
                match self.total.as_ref().map(|total| total.check()) {
                    Some(Err(until)) => Err(self.refused("throttle-total", &until)),
                    None | Some(Ok(())) => Ok(()),
                }
            }
        }
    }

    fn keyed(
        &self,
        limiter: &Option<DefaultKeyedRateLimiter<IpAddr>>,
        peer: IpAddr,
        setting: &'static str,
    ) -> Result<(), Throttled> {
        match limiter.as_ref().map(|keyed| keyed.check_key(&bucket(peer))) {
            Some(Err(until)) => Err(self.refused(setting, &until)),
            None | Some(Ok(())) => Ok(()),
        }
    }

    fn refused(&self, setting: &'static str, until: &NotUntil<QuantaInstant>) -> Throttled {
        Throttled { setting, retry_after: until.wait_time_from(self.clock.now()) }
    }
}

fn quota(rate: Rate) -> Quota {
    let at_least_one = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    Quota::per_second(at_least_one(rate.per_second)).allow_burst(at_least_one(rate.burst))
}

/// Whose bucket an address draws on: an IPv6 client owns a whole /64 and would otherwise own 2^64 buckets.
fn bucket(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn throttle(client: Option<Rate>, total: Option<Rate>, admin: Option<Rate>) -> Throttle {
        Throttle::new(&Settings {
            throttle_client: client,
            throttle_total: total,
            throttle_admin: admin,
            ..Settings::from_args(&[]).expect("defaults are valid")
        })
    }
    /// So slow that nothing comes back within a test.
    fn burst(burst: u32) -> Option<Rate> {
        Some(Rate { per_second: 1, burst })
    }
    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn limits_are_switched_on_and_off() {
        let throttle = throttle(None, None, None);
        assert!(!throttle.is_on() && throttle.check(Scope::Data, A).is_ok() && throttle.remembered() == 0);
        let with = |throttle_client| Settings { throttle_client, ..Settings::from_args(&[]).expect("valid") };
        throttle.replace(&with(burst(1)));
        assert!(throttle.check(Scope::Data, A).is_ok() && throttle.check(Scope::Data, A).is_err());
        throttle.replace(&with(None));
        assert!(!throttle.is_on() && throttle.check(Scope::Data, A).is_ok());
    }

    #[test]
    fn each_client_has_its_own_budget_and_the_answer_names_the_setting() {
        let throttle = throttle(burst(2), None, None);
        assert!(throttle.check(Scope::Data, A).is_ok());
        assert!(throttle.check(Scope::Data, A).is_ok());
        let refused = throttle.check(Scope::Data, A).expect_err("over");
        assert_eq!(refused.setting, "throttle");
        assert!(refused.retry_after > Duration::ZERO && refused.retry_after <= Duration::from_secs(1));
        assert!(throttle.check(Scope::Data, B).is_ok());
        assert_eq!(throttle.remembered(), 2);
    }

    #[test]
    fn the_total_is_shared_and_admin_is_apart() {
        let throttle = throttle(None, burst(1), burst(1));
        assert!(throttle.check(Scope::Data, A).is_ok());
        let refused = throttle.check(Scope::Data, B).expect_err("over");
        assert_eq!(refused.setting, "throttle-total");
        assert!(throttle.check(Scope::Admin, A).is_ok());
        let refused = throttle.check(Scope::Admin, A).expect_err("over");
        assert_eq!(refused.setting, "throttle-admin");
        assert!(throttle.check(Scope::Admin, B).is_ok());
    }

    #[test]
    fn an_ipv6_client_is_its_64_bit_prefix_and_a_mapped_ipv4_client_is_ipv4() {
        let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(bucket(parse("2001:db8::1")), bucket(parse("2001:db8::ffff:2")));
        assert_ne!(bucket(parse("2001:db8::1")), bucket(parse("2001:db8:0:1::1")));
        assert_eq!(bucket(parse("::ffff:10.0.0.1")), A);
    }

    #[test]
    fn idle_clients_are_forgotten() {
        let fast = Some(Rate { per_second: 1_000_000, burst: 1 });
        let throttle = throttle(fast, None, None);
        assert!(throttle.check(Scope::Data, A).is_ok());
        // A bucket of one request at a million a second is full again after a microsecond.
        while throttle.remembered() > 0 {
            throttle.forget_idle();
        }
    }
}
