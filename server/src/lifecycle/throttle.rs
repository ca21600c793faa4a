//! Requests per second: per client address, per user, per command class and client address, per key prefix, in total; and per client address for
//! the admin and stats routes. Token buckets by `governor` (GCRA).
//!
//! Every request and every Redis command counts, whatever its outcome. The states of clients are in tables of fixed size
//! ([`SharedCells`]). Limits are asked in the order above: a request that one refuses has drawn on those before it.
use super::shared_cells::SharedCells;
use crate::config::{Categories, CommandList, Rate, Settings};
use arc_swap::ArcSwapOption;
use foldhash::quality::RandomState;
use governor::{
    NotUntil, Quota, RateLimiter,
    clock::{Clock, DefaultClock, QuantaInstant},
    middleware::{StateInformationMiddleware, StateSnapshot},
    state::{InMemoryState, NotKeyed},
};
use std::{
    hash::{BuildHasher, Hash},
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

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'c> {
    /// The client's address.
    pub address: IpAddr,
    /// The user it has logged in as; `None`: nobody.
    pub user: Option<&'c str>,
}

/// What is asked for.
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
    /// When a retry will be let through, if nobody else comes first.
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
    /// Whether there is any: what a request looks at where there is none.
    is_on: AtomicBool,
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
    /// The limits of `settings`.
    pub fn new(settings: &Settings) -> Throttle {
        let throttle = Throttle::default();
        throttle.replace(settings);
        throttle
    }

    /// The limits of `settings` from now on. Each client begins with a full budget.
    pub fn replace(&self, settings: &Settings) {
        let keyed = |rate: Rate| {
            KeyedLimiter::new(quota(rate), SharedCells::new(settings.throttle_table), DefaultClock::default())
        };
        let shared = |rate| SharedLimiter::new(quota(rate), InMemoryState::default(), DefaultClock::default());
        let commands = settings.throttle_commands.iter().map(|limit| {
            (
                limit.to_string().into(),
                CommandList::of([&*limit.what]),
                keyed(Rate { per_second: limit.rate, burst: limit.rate }),
            )
        });
        let prefixes = settings.throttle_prefixes.iter();
        let mut prefixes: Vec<_> = prefixes
            .map(|limit| (Arc::from(&*limit.what), shared(Rate { per_second: limit.rate, burst: limit.rate })))
            .collect();
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
        self.is_on.store(is_on, Relaxed);
    }

    /// Whether any request is limited.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
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
        self.is_on() && self.limiters.load().as_ref().is_some_and(|limiters| limiters.is_shown)
    }

    /// Counts one request; an error if it must be refused. A refused request does not draw on the budget that refused it. `None`: nothing
    /// limits it.
    ///
    /// # Errors
    /// A budget is used up.
    #[inline]
    pub fn check<'k>(
        &self,
        scope: Scope,
        caller: Caller<'_>,
        command: Option<CommandClass<'_>>,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<Option<Allowance>, Throttled> {
        match self.is_on() {
            false => Ok(None),
            true => match &*self.limiters.load() {
                Some(limiters) => limiters.check(scope, caller, command, keys),
                None => Ok(None),
            },
        }
    }
}

impl Throttle {
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
    use std::net::Ipv4Addr;

    fn settings(args: &[&str]) -> Settings {
        Settings::from_args(args).expect("valid")
    }
    fn throttle(args: &[&str]) -> Throttle {
        Throttle::new(&settings(args))
    }
    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    /// A request that names no key and no command.
    fn ask(
        throttle: &Throttle,
        scope: Scope,
        address: IpAddr,
        user: Option<&str>,
    ) -> Result<Option<Allowance>, Throttled> {
        throttle.check(scope, Caller { address, user }, None, std::iter::empty())
    }
    fn plain(throttle: &Throttle, address: IpAddr) -> Result<Option<Allowance>, Throttled> {
        ask(throttle, Scope::Data, address, None)
    }
    fn command(throttle: &Throttle, name: &str, category: &str, keys: &[&str]) -> Result<Option<Allowance>, Throttled> {
        let class = CommandClass { name, categories: Categories::named(category).expect("known") };
        let caller = Caller { address: A, user: None };
        throttle.check(Scope::Data, caller, Some(class), keys.iter().map(|key| key.as_bytes()))
    }

    #[test]
    fn limits_are_switched_on_and_off() {
        let throttle = throttle(&[]);
        assert!(!throttle.is_on() && plain(&throttle, A) == Ok(None));
        throttle.replace(&settings(&["--throttle=1/s"]));
        assert!(throttle.is_on() && plain(&throttle, A).is_ok() && plain(&throttle, A).is_err());
        throttle.replace(&settings(&[]));
        assert!(!throttle.is_on() && plain(&throttle, A).is_ok());
    }

    #[test]
    fn each_client_has_its_own_budget_and_the_answer_names_the_setting() {
        let throttle = throttle(&["--throttle=1/s", "--throttle-burst=2"]);
        let left = plain(&throttle, A).expect("allowed").expect("limited");
        assert_eq!((left.setting, left.burst, left.remaining), ("throttle", 2, 1));
        assert_eq!(left.window, Duration::from_secs(2));
        assert_eq!(left.whole_again(), Duration::from_secs(1));
        assert!(plain(&throttle, A).is_ok());
        let refused = plain(&throttle, A).expect_err("over");
        assert_eq!(
            (refused.setting().as_str(), refused.is_of_client, refused.allowance.remaining),
            ("throttle", true, 0)
        );
        assert!(refused.retry_after > Duration::ZERO && refused.retry_after <= Duration::from_secs(1));
        assert!(plain(&throttle, B).is_ok());
    }

    #[test]
    fn the_total_is_shared_and_admin_is_apart() {
        let throttle = throttle(&["--throttle-total=1/s", "--throttle-admin=1/s"]);
        assert!(plain(&throttle, A).is_ok());
        let refused = plain(&throttle, B).expect_err("over");
        assert_eq!((refused.setting().as_str(), refused.is_of_client), ("throttle-total", false));
        assert!(ask(&throttle, Scope::Admin, A, None).is_ok());
        let refused = ask(&throttle, Scope::Admin, A, None).expect_err("over");
        assert_eq!(refused.setting(), "throttle-admin");
        assert!(ask(&throttle, Scope::Admin, B, None).is_ok());
    }

    #[test]
    fn a_user_has_one_budget_at_all_addresses() {
        let throttle = throttle(&["--throttle-user=1/s"]);
        assert!(ask(&throttle, Scope::Data, A, Some("ann")).is_ok());
        let refused = ask(&throttle, Scope::Data, B, Some("ann")).expect_err("over");
        assert_eq!(refused.setting(), "throttle-user");
        assert!(ask(&throttle, Scope::Data, A, Some("bob")).is_ok());
        assert!((0..5).all(|_| plain(&throttle, A).is_ok()), "nobody has no budget of a user");
    }

    #[test]
    fn commands_are_limited_by_name_and_by_category() {
        let throttle = throttle(&["--throttle-commands=keys=1/s", "--throttle-commands=@write=2/s"]);
        assert!(command(&throttle, "keys", "slow", &[]).is_ok());
        assert_eq!(
            command(&throttle, "keys", "slow", &[]).expect_err("over").setting(),
            "throttle-commands (keys=1/s)"
        );
        assert!(command(&throttle, "set", "write", &[]).is_ok() && command(&throttle, "del", "write", &[]).is_ok());
        let refused = command(&throttle, "incr", "write", &[]).expect_err("over");
        assert_eq!(refused.setting(), "throttle-commands (@write=2/s)");
        assert!((0..5).all(|_| command(&throttle, "get", "read", &[]) == Ok(None)));
    }

    #[test]
    fn the_longest_prefix_of_each_key_counts() {
        let throttle = throttle(&["--throttle-prefixes=user:=2/s", "--throttle-prefixes=user:vip:=5/s"]);
        assert!(command(&throttle, "mget", "read", &["user:1", "user:vip:1", "other"]).is_ok());
        assert!(command(&throttle, "get", "read", &["user:2"]).is_ok());
        let refused = command(&throttle, "get", "read", &["user:3"]).expect_err("over");
        assert_eq!((refused.setting().as_str(), refused.is_of_client), ("throttle-prefixes (user:)", false));
        assert!((0..4).all(|_| command(&throttle, "get", "read", &["user:vip:2"]).is_ok()));
        assert!(command(&throttle, "get", "read", &["user:vip:2"]).is_err());
        assert!(command(&throttle, "get", "read", &["other"]).is_ok());
    }

    #[test]
    fn busy_clients_do_a_quiet_one_no_harm() {
        // 100 clients far over their limits, in a table of 4096: a quiet client shares both of its cells with one in 400.
        let throttle = throttle(&["--throttle=1/s", "--throttle-burst=3", "--throttle-table=4096"]);
        let client = |n: u32| IpAddr::from(Ipv4Addr::from_bits(n));
        for n in 0..100 {
            (0..20).for_each(|_| drop(plain(&throttle, client(n))));
        }
        let refused = (1000..2000).filter(|n| plain(&throttle, client(*n)).is_err()).count();
        assert!(refused < 50, "{refused} of 1000");
    }

    #[test]
    fn an_ipv6_client_is_its_64_bit_prefix_and_a_mapped_ipv4_client_is_ipv4() {
        let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(bucket(parse("2001:db8::1")), bucket(parse("2001:db8::ffff:2")));
        assert_ne!(bucket(parse("2001:db8::1")), bucket(parse("2001:db8:0:1::1")));
        assert_eq!(bucket(parse("::ffff:10.0.0.1")), A);
    }
}
