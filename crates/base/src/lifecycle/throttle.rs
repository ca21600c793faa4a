//! Requests per second: per client address, per user, per command class and client address, per key
//! prefix, in total; and per client address for the admin and stats routes. Token buckets by
//! `governor` (GCRA).
//!
//! Every request and every Redis command counts, whatever its outcome. The states of clients are in
//! tables of fixed size ([`SharedCells`]). Limits are asked in the order above: a request that one
//! refuses has drawn on those before it.
use super::shared_cells::SharedCells;
use crate::special::Switch;
use arc_swap::ArcSwapOption;
use foldhash::quality::RandomState;
use governor::{
    NotUntil, Quota, RateLimiter,
    clock::{Clock, DefaultClock, QuantaInstant},
    middleware::{StateInformationMiddleware, StateSnapshot},
    state::{InMemoryState, NotKeyed},
};
use larder_config::{Categories, CommandList, Rate, Settings};
use std::{
    hash::{BuildHasher, Hash},
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

/// Entries in the table of each limit by address or user, 8 bytes each. A client has two and shares
/// its limit with clients that have the same two: with 1,000 busy clients one other client in 4,000
/// does.
const CELLS: usize = 1 << 16;

/// Which budget a request draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Keys and values, over either protocol.
    Data,
    /// Admin and stats routes.
    Admin,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'c> {
    /// The client's address.
    pub address: IpAddr,
    /// The user it has logged in as; `None`: it has not.
    pub user: Option<&'c str>,
}

#[derive(Debug, Clone, Copy)]
pub struct CommandClass<'c> {
    /// In lower case, a subcommand behind its parent's name and `|`.
    pub name: &'c str,
    /// Redis's categories of it.
    pub categories: Categories,
}

/// The state of the limit that is closest to being used up, after a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// The setting, by its configuration name.
    pub setting: &'static str,
    /// Requests at once after a pause.
    pub burst: u32,
    /// The time in which a used-up budget is whole again.
    pub window: Duration,
    /// Requests that are left at the moment.
    pub remaining: u32,
}

impl Allowance {
    /// When the budget is whole again, if no more requests come.
    pub fn whole_again(&self) -> Duration {
        self.window * (self.burst - self.remaining.min(self.burst)) / self.burst.max(1)
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throttled {
    /// The budget that is used up.
    pub allowance: Allowance,
    /// The entry of the setting, if it has several.
    pub entry: Option<Arc<str>>,
    /// The budget is the client's own: others may still be served.
    pub is_of_client: bool,
    /// When a retry will be let through, if no other client comes first.
    pub retry_after: Duration,
}

impl Throttled {
    /// The setting whose limit was reached, with the entry of it.
    pub fn setting(&self) -> String {
        match &self.entry {
            Some(entry) => format!("{} ({entry})", self.allowance.setting),
            None => self.allowance.setting.to_owned(),
        }
    }
}

/// The limits on requests. They change at run time, all at once.
#[derive(Debug, Default)]
pub struct Throttle {
    is_on: Switch,
    limiters: ArcSwapOption<Limiters>,
}

type KeyedLimiter = RateLimiter<u64, SharedCells, DefaultClock, StateInformationMiddleware>;
type SharedLimiter = RateLimiter<NotKeyed, InMemoryState, DefaultClock, StateInformationMiddleware>;

#[derive(Debug)]
struct Limiters {
    clock: DefaultClock,
    hasher: RandomState,
    client: Option<KeyedLimiter>,
    user: Option<KeyedLimiter>,
    commands: Vec<(Arc<str>, CommandList, KeyedLimiter)>,
    /// The longest prefix first.
    prefixes: Vec<(Arc<str>, SharedLimiter)>,
    total: Option<SharedLimiter>,
    admin: Option<KeyedLimiter>,
    is_shown: bool,
}

impl Throttle {
    /// The limits of `settings`. The switch is on while there are any.
    pub fn new(settings: &Settings, is_on: Switch) -> Throttle {
        let throttle = Throttle { is_on, ..Throttle::default() };
        throttle.replace(settings);
        throttle
    }

    /// The limits of `settings` from now on. Each client begins with a full budget.
    pub fn replace(&self, settings: &Settings) {
        let keyed = |rate: Rate| KeyedLimiter::new(quota(rate), SharedCells::new(CELLS), DefaultClock::default());
        let shared = |rate| SharedLimiter::new(quota(rate), InMemoryState::default(), DefaultClock::default());
        let commands = settings
            .throttle_commands
            .iter()
            .map(|limit| (limit.to_string().into(), CommandList::of([&*limit.what]), keyed(limit.rate)));
        let prefixes = settings.throttle_prefixes.iter();
        let mut prefixes: Vec<_> = prefixes.map(|limit| (Arc::from(&*limit.what), shared(limit.rate))).collect();
        prefixes.sort_by_key(|(prefix, _): &(Arc<str>, _)| std::cmp::Reverse(prefix.len()));
        let limiters = Limiters {
            clock: DefaultClock::default(),
            hasher: RandomState::default(),
            client: settings.throttle_client.map(keyed),
            user: settings.throttle_user.map(keyed),
            commands: commands.collect(),
            prefixes,
            total: settings.throttle_total.map(shared),
            admin: settings.throttle_admin.map(keyed),
            is_shown: settings.throttle_headers,
        };
        let is_on = limiters.client.is_some()
            || limiters.user.is_some()
            || limiters.total.is_some()
            || limiters.admin.is_some()
            || !limiters.commands.is_empty()
            || !limiters.prefixes.is_empty();
        self.limiters.store(is_on.then(|| Arc::new(limiters)));
        self.is_on.set(is_on);
    }

    /// Whether any request is limited.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.is_on()
    }

    /// Whether more counts than the address of a client, or clients are told what is left.
    pub fn looks_at_requests(&self) -> bool {
        self.is_on()
            && self.limiters.load().as_ref().is_some_and(|limiters| {
                limiters.is_shown
                    || limiters.user.is_some()
                    || !limiters.commands.is_empty()
                    || !limiters.prefixes.is_empty()
            })
    }

    /// Whether clients are told what is left of their budgets.
    pub fn is_shown(&self) -> bool {
        self.limiters.load().as_ref().is_some_and(|limiters| limiters.is_shown)
    }

    /// Counts one request; an error if it must be refused. A refused request does not draw on the
    /// budget that refused it. `None`: nothing limits it.
    ///
    /// # Errors
    /// A budget is used up.
    pub fn check<'k>(
        &self,
        scope: Scope,
        caller: Caller<'_>,
        command: Option<CommandClass<'_>>,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<Option<Allowance>, Throttled> {
        match &*self.limiters.load() {
            Some(limiters) => limiters.check(scope, caller, command, keys),
            None => Ok(None),
        }
    }

    /// Counts keys that became known after their request was counted.
    ///
    /// # Errors
    /// A budget is used up.
    pub fn check_keys<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> Result<(), Throttled> {
        match &*self.limiters.load() {
            Some(limiters) if !limiters.prefixes.is_empty() => {
                keys.try_for_each(|key| limiters.check_prefix(key).map(drop))
            }
            _ => Ok(()),
        }
    }
}

impl Limiters {
    fn check_prefix(&self, key: &[u8]) -> Result<Option<Allowance>, Throttled> {
        let found = self.prefixes.iter().find(|(prefix, _)| key.starts_with(prefix.as_bytes()));
        found.map(|(prefix, limiter)| self.shared(limiter, "throttle-prefixes", Some(prefix))).transpose()
    }

    fn check<'k>(
        &self,
        scope: Scope,
        caller: Caller<'_>,
        command: Option<CommandClass<'_>>,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<Option<Allowance>, Throttled> {
        let address = bucket(caller.address);
        let mut least = Least(None);
        if scope == Scope::Admin {
            if let Some(limiter) = &self.admin {
                least.note(self.keyed(limiter, address, "throttle-admin", None)?);
            }
            return Ok(least.0);
        }
        if let Some(limiter) = &self.client {
            least.note(self.keyed(limiter, address, "throttle", None)?);
        }
        if let (Some(limiter), Some(user)) = (&self.user, caller.user) {
            least.note(self.keyed(limiter, user, "throttle-user", None)?);
        }
        if let Some(command) = command {
            for (entry, list, limiter) in &self.commands {
                if list.lists(command.name, command.categories) {
                    least.note(self.keyed(limiter, address, "throttle-commands", Some(entry))?);
                }
            }
        }
        if !self.prefixes.is_empty() {
            for key in keys {
                if let Some(allowance) = self.check_prefix(key)? {
                    least.note(allowance);
                }
            }
        }
        if let Some(limiter) = &self.total {
            least.note(self.shared(limiter, "throttle-total", None)?);
        }
        Ok(least.0)
    }

    fn keyed(
        &self,
        limiter: &KeyedLimiter,
        client: impl Hash,
        setting: &'static str,
        entry: Option<&Arc<str>>,
    ) -> Result<Allowance, Throttled> {
        let state = limiter.check_key(&self.hasher.hash_one(client));
        state.map(|state| allowance(setting, &state)).map_err(|until| self.refused(setting, entry, true, &until))
    }

    fn shared(
        &self,
        limiter: &SharedLimiter,
        setting: &'static str,
        entry: Option<&Arc<str>>,
    ) -> Result<Allowance, Throttled> {
        let state = limiter.check();
        state.map(|state| allowance(setting, &state)).map_err(|until| self.refused(setting, entry, false, &until))
    }

    #[cold]
    fn refused(
        &self,
        setting: &'static str,
        entry: Option<&Arc<str>>,
        is_of_client: bool,
        until: &NotUntil<QuantaInstant>,
    ) -> Throttled {
        let allowance = with_quota(setting, until.quota(), 0);
        Throttled {
            allowance,
            entry: entry.cloned(),
            is_of_client,
            retry_after: until.wait_time_from(self.clock.now()),
        }
    }
}

/// The allowance with the smallest part of its budget left.
struct Least(Option<Allowance>);
impl Least {
    fn note(&mut self, new: Allowance) {
        let share = |of: &Allowance| u64::from(of.remaining) * 1_000_000 / u64::from(of.burst.max(1));
        if self.0.as_ref().is_none_or(|old| share(&new) < share(old)) {
            self.0 = Some(new);
        }
    }
}

fn allowance(setting: &'static str, state: &StateSnapshot) -> Allowance {
    with_quota(setting, state.quota(), state.remaining_burst_capacity())
}

fn with_quota(setting: &'static str, quota: Quota, remaining: u32) -> Allowance {
    let burst = quota.burst_size().get();
    Allowance { setting, burst, window: quota.burst_size_replenished_in(), remaining }
}

fn quota(rate: Rate) -> Quota {
    let requests = NonZeroU32::new(rate.requests).unwrap_or(NonZeroU32::MIN);
    if rate.per > Duration::from_secs(1) { Quota::per_minute(requests) } else { Quota::per_second(requests) }
}

/// Whose bucket an address draws on: an IPv6 client owns a whole /64 and would otherwise own 2^64
/// buckets.
fn bucket(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests;
