//! Which of the pods are nodes: those that are ready, and for a while those that were.
//!
//! A pod that is not ready any more stays for a while: it may hand its keys over, or be back in a
//! moment. And if no pod is ready all stay: the source that all of them need is lost, and a ring
//! without them would have each fetch every key when it is back.
use super::{found_nodes::ZonedAddress, pod_objects::Pod};
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use tokio::time::Instant;

/// The pods that were selected, and since when they are what they are.
pub(super) struct ReadyPods {
    port: u16,
    /// How long a pod that is not ready any more stays.
    patience: Duration,
    pods: BTreeMap<String, KnownPod>,
    /// Since when at least one is ready.
    some_ready_since: Option<Instant>,
}

struct KnownPod {
    pod: Pod,
    /// `None`: it is ready, or was not ready since it is known.
    was_ready_until: Option<Instant>,
}

impl ReadyPods {
    pub(super) fn new(port: u16, patience: Duration) -> ReadyPods {
        ReadyPods { port, patience, pods: BTreeMap::new(), some_ready_since: None }
    }

    /// These are all the pods.
    pub(super) fn replace(&mut self, pods: Vec<Pod>, now: Instant) {
        let mut old = std::mem::take(&mut self.pods);
        for pod in pods {
            if let Some(known) = old.remove(&pod.name) {
                self.pods.insert(pod.name.clone(), known);
            }
            self.set(pod, now);
        }
        self.look(now);
    }

    /// A pod is this now.
    pub(super) fn is(&mut self, pod: Pod, now: Instant) {
        self.set(pod, now);
        self.look(now);
    }

    /// The pod of this name is no more.
    pub(super) fn gone(&mut self, name: &str, now: Instant) {
        self.pods.remove(name);
        self.look(now);
    }

    fn set(&mut self, pod: Pod, now: Instant) {
        if pod.has_ended {
            self.pods.remove(&pod.name);
            return;
        }
        // The same name at another address is another pod.
        let known = self.pods.remove(&pod.name).filter(|known| known.pod.addresses == pod.addresses);
        let was_ready_until = match known {
            _ if pod.is_ready => None,
            None => None,
            Some(known) if known.pod.is_ready => Some(now),
            Some(known) => known.was_ready_until,
        };
        self.pods.insert(pod.name.clone(), KnownPod { pod, was_ready_until });
    }

    fn look(&mut self, now: Instant) {
        match self.pods.values().any(|known| known.pod.is_ready) {
            true => self.some_ready_since = self.some_ready_since.or(Some(now)),
            false => self.some_ready_since = None,
        }
    }

    /// Until when a pod is a node though it is not ready. `None`: it is none, or one for as long as
    /// no pod is ready.
    fn stays_until(&self, known: &KnownPod) -> Option<Instant> {
        Some(known.was_ready_until?.max(self.some_ready_since?) + self.patience)
    }

    /// Every address of the nodes.
    pub(super) fn nodes(&self, now: Instant) -> Vec<ZonedAddress> {
        let is_node = |known: &&KnownPod| {
            let stays = || match self.some_ready_since {
                Some(_) => self.stays_until(known).is_some_and(|until| now < until),
                None => known.was_ready_until.is_some(),
            };
            known.pod.is_ready || stays()
        };
        let nodes = self.pods.values().filter(is_node);
        let addresses = |known: &KnownPod| {
            let zone = known.pod.zone.clone();
            let all: Vec<ZonedAddress> =
                known.pod.addresses.iter().map(|ip| (SocketAddr::new(*ip, self.port), zone.clone())).collect();
            all
        };
        nodes.flat_map(addresses).collect()
    }

    /// When the next pod leaves by itself.
    pub(super) fn next_leaves(&self, now: Instant) -> Option<Instant> {
        self.pods.values().filter_map(|known| self.stays_until(known)).filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(number: u8, is_ready: bool) -> Pod {
        Pod {
            name: format!("larder-{number}"),
            addresses: vec![[10, 0, 0, number].into()],
            zone: None,
            is_ready,
            has_ended: false,
        }
    }
    const PATIENCE: Duration = Duration::from_secs(10);

    struct Watched(ReadyPods, Instant);
    impl Watched {
        fn new(pods: &[(u8, bool)]) -> Watched {
            let (mut ready, now) = (ReadyPods::new(80, PATIENCE), Instant::now());
            ready.replace(pods.iter().map(|(number, is_ready)| pod(*number, *is_ready)).collect(), now);
            Watched(ready, now)
        }
        fn set(&mut self, number: u8, is_ready: bool) {
            self.0.is(pod(number, is_ready), self.1);
        }
        fn later(&mut self, seconds: u64) {
            self.1 += Duration::from_secs(seconds);
        }
        fn nodes(&self) -> Vec<u8> {
            let last = |(address, _): ZonedAddress| match address {
                SocketAddr::V4(address) => address.ip().octets()[3],
                SocketAddr::V6(_) => 0,
            };
            self.0.nodes(self.1).into_iter().map(last).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pods_are_nodes_once_they_are_ready_and_for_a_while_longer() {
        let mut watched = Watched::new(&[(1, true), (2, false), (3, true)]);
        assert_eq!(watched.nodes(), [1, 3], "one that was never ready is none");
        watched.set(2, true);
        assert_eq!(watched.nodes(), [1, 2, 3]);
        watched.set(3, false);
        watched.later(9);
        // What is said again changes nothing.
        watched.set(3, false);
        assert_eq!(
            (watched.nodes(), watched.0.next_leaves(watched.1)),
            (vec![1, 2, 3], Some(watched.1 + Duration::from_secs(1)))
        );
        watched.later(1);
        assert_eq!((watched.nodes(), watched.0.next_leaves(watched.1)), (vec![1, 2], None));
        watched.set(3, true);
        assert_eq!(watched.nodes(), [1, 2, 3]);
        watched.0.gone("larder-1", watched.1);
        assert_eq!(watched.nodes(), [2, 3], "a pod that is no more leaves at once");
        let mut ended = pod(2, false);
        ended.has_ended = true;
        watched.0.is(ended, watched.1);
        assert_eq!(watched.nodes(), [3], "and one that has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn if_none_is_ready_all_stay_and_have_time_to_come_back() {
        let mut watched = Watched::new(&[(1, true), (2, true), (3, true), (4, false)]);
        watched.set(1, false);
        watched.later(5);
        watched.set(2, false);
        watched.later(4);
        watched.set(3, false);
        watched.later(3600);
        assert_eq!((watched.nodes(), watched.0.next_leaves(watched.1)), (vec![1, 2, 3], None));
        // A new list is no other news.
        watched.0.replace((1..=4).map(|number| pod(number, false)).collect(), watched.1);
        assert_eq!(watched.nodes(), [1, 2, 3]);
        watched.set(2, true);
        watched.later(5);
        watched.set(1, true);
        assert_eq!(watched.nodes(), [1, 2, 3]);
        watched.later(5);
        assert_eq!(watched.nodes(), [1, 2], "the third has not come back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_replaces_all_and_a_name_at_another_address_is_another_pod() {
        let mut watched = Watched::new(&[(1, true), (2, true), (3, true)]);
        watched.0.replace(vec![pod(1, true), pod(3, false)], watched.1);
        assert_eq!(watched.nodes(), [1, 3], "the second is no more, the third may come back");
        let mut moved = pod(9, false);
        moved.name = "larder-3".to_owned();
        watched.0.is(moved, watched.1);
        assert_eq!(watched.nodes(), [1]);
    }
}
