//! Requests per second: per client address, in total, and for the admin and stats routes. Token buckets by `governor` (GCRA).
//!
//! Every request and every Redis command counts, whatever its outcome. The keyed state holds one small record per address
//! seen within the time that a bucket takes to fill up; [`Throttle::forget_idle`] drops the others once a second.
use crate::config::{Rate, Settings};
use governor::{
    DefaultDirectRateLimiter, DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter,
    clock::{Clock, DefaultClock, QuantaInstant},
};
use std::{
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
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

/// The limiters that are configured. The process holds an `Option<Throttle>`, `None` when nothing is.
#[derive(Debug)]
pub struct Throttle {
    clock: DefaultClock,
    client: Option<DefaultKeyedRateLimiter<IpAddr>>,
    total: Option<DefaultDirectRateLimiter>,
    admin: Option<DefaultDirectRateLimiter>,
}

impl Throttle {
    /// The limiters of `settings`; `None` if there are none, so that an unlimited server pays nothing.
    pub fn new(settings: &Settings) -> Option<Throttle> {
        let throttle = Throttle {
            clock: DefaultClock::default(),
            client: settings
                .throttle_client
                .map(|rate| RateLimiter::keyed(quota(rate))),
            total: settings
                .throttle_total
                .map(|rate| RateLimiter::direct(quota(rate))),
            admin: settings
                .throttle_admin
                .map(|rate| RateLimiter::direct(quota(rate))),
        };
        let any = throttle.client.is_some() || throttle.total.is_some() || throttle.admin.is_some();
        any.then_some(throttle)
    }

    /// Counts one request from `peer`; an error if it must be refused. A refused request does not draw on the budget
    /// that refused it. Refusals of the total budget are still counted against the client's own.
    pub fn check(&self, scope: Scope, peer: IpAddr) -> Result<(), Throttled> {
        match scope {
            Scope::Admin => self.direct(&self.admin, "throttle-admin"),
            Scope::Data => {
                if let Some(client) = &self.client {
                    client
                        .check_key(&bucket(peer))
                        .map_err(|until| self.refused("throttle-client", &until))?;
                }
                self.direct(&self.total, "throttle-total")
            }
        }
    }

    /// Drops the state of clients whose bucket is full again. Call it about once a second.
    pub fn forget_idle(&self) {
        if let Some(client) = &self.client {
            client.retain_recent();
            client.shrink_to_fit();
        }
    }

    /// Client addresses remembered at the moment.
    pub fn clients(&self) -> usize {
        self.client.as_ref().map_or(0, |client| client.len())
    }

    fn direct(
        &self,
        limiter: &Option<DefaultDirectRateLimiter>,
        setting: &'static str,
    ) -> Result<(), Throttled> {
        match limiter {
            None => Ok(()),
            Some(limiter) => limiter
                .check()
                .map_err(|until| self.refused(setting, &until)),
        }
    }

    fn refused(&self, setting: &'static str, until: &NotUntil<QuantaInstant>) -> Throttled {
        Throttled {
            setting,
            retry_after: until.wait_time_from(self.clock.now()),
        }
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
