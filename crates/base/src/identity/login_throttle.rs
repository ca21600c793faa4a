//! Failed logins are counted for each address; an address with too many has to wait.
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

/// What a client shows, or guesses. Each kind is counted apart: wrong secrets of one kind must not
/// keep out a node that shows another from behind the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// A password or a token.
    Login,
    PeerSecret,
    ReplicationSecret,
}

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
        let of = all.get(&client(address)).filter(|of| of.count >= FAILURES)?;
        (of.since + WINDOW).checked_duration_since(now).filter(|left| !left.is_zero())
    }
    /// A login of this address failed.
    pub(super) fn failed(&self, address: IpAddr, now: Instant) {
        let address = client(address);
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

/// Whose address it is: an IPv6 client has all addresses of its 64-bit prefix.
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
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
    fn an_ipv6_client_is_its_64_bit_prefix_and_a_mapped_ipv4_client_is_ipv4() {
        let (throttle, start) = (LoginThrottle::default(), Instant::now());
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        for number in 0..FAILURES {
            throttle.failed(address(&format!("2001:db8::{number:x}")), start);
            throttle.failed(address("::ffff:10.0.0.1"), start);
        }
        for waits in ["2001:db8::ffff:1", "10.0.0.1"] {
            assert_eq!(throttle.wait(address(waits), start), Some(WINDOW), "{waits}");
        }
        for other in ["2001:db8:0:1::1", "::ffff:10.0.0.2"] {
            assert_eq!(throttle.wait(address(other), start), None, "{other}");
        }
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
