//! Failed logins are counted for each address; an address with too many has to wait.
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// Failed logins that an address may have in a [`WINDOW`].
const FAILURES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered. When there are more, those whose window is over are forgotten,
/// and then all.
const ADDRESSES: usize = 10_000;

/// The failed logins of each address.
#[derive(Debug, Default)]
pub(super) struct LoginThrottle(Mutex<HashMap<IpAddr, Failures>>);
#[derive(Debug)]
struct Failures {
    since: Instant,
    count: u32,
}

impl LoginThrottle {
    /// How long the address has to wait before its next login is looked at.
    pub(super) fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let all = self.0.lock();
        let of = all.get(&address).filter(|of| of.count >= FAILURES)?;
        (of.since + WINDOW).checked_duration_since(now).filter(|left| !left.is_zero())
    }
    /// A login of this address failed.
    pub(super) fn failed(&self, address: IpAddr, now: Instant) {
        let mut all = self.0.lock();
        let is_over = |of: &Failures| now.saturating_duration_since(of.since) >= WINDOW;
        if all.len() >= ADDRESSES && !all.contains_key(&address) {
            all.retain(|_, of| !is_over(of));
            if all.len() >= ADDRESSES {
                all.clear();
            }
        }
        let of = all.entry(address).or_insert(Failures { since: now, count: 0 });
        if is_over(of) {
            *of = Failures { since: now, count: 0 };
        }
        of.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_fails_too_often_waits_and_others_do_not() {
        let (throttle, start) = (LoginThrottle::default(), Instant::now());
        let [one, other] = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])];
        for _ in 0..FAILURES {
            assert_eq!(throttle.wait(one, start), None);
            throttle.failed(one, start);
        }
        assert_eq!(throttle.wait(one, start), Some(WINDOW));
        assert_eq!(throttle.wait(other, start), None);
        assert_eq!(throttle.wait(one, start + WINDOW), None);
        throttle.failed(one, start + WINDOW);
        assert_eq!(throttle.wait(one, start + WINDOW), None);
    }

    #[test]
    fn addresses_are_bounded() {
        let (throttle, start) = (LoginThrottle::default(), Instant::now());
        for number in 0..3 * ADDRESSES as u32 {
            throttle.failed(IpAddr::from(number.to_be_bytes()), start);
            assert!(throttle.0.lock().len() <= ADDRESSES);
        }
    }
}
