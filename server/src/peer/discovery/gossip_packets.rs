//! Packets of gossip: who a node is, and the seal that shows `peer-secret`.
use crate::config::{PeerAddress, PeerNode};
use foca::Identity;
use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The longest packet without its seal: what no network splits.
pub(super) const LONGEST_PACKET: usize = 1300;
/// Bytes of a seal (HMAC with SHA-256, RFC 2104).
const SEAL: usize = 32;
/// What is sealed before a packet, so that no other use of the secret makes a valid seal.
const CONTEXT: &[u8] = b"larder gossip 1\n";

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeId {
    /// Where it gossips.
    pub(super) gossip: SocketAddr,
    /// Where it serves HTTP: `host:port`.
    pub(super) http: String,
    /// Its zone; empty: it is in none.
    pub(super) zone: String,
    /// Of two with the same address the later one counts: ms since 1970, and one more each time
    /// that the others took it for gone.
    pub(super) since: u64,
}

impl NodeId {
    /// A node of which nothing but the address is known.
    pub(super) fn at(gossip: SocketAddr) -> NodeId {
        NodeId { gossip, http: String::new(), zone: String::new(), since: 0 }
    }
    /// Where it serves HTTP, and its zone; `None`: it is not known, or makes no sense.
    pub(super) fn node(&self) -> Option<PeerNode> {
        let address: PeerAddress = self.http.parse().ok()?;
        let zone = if self.zone.is_empty() { None } else { Some(self.zone.parse().ok()?) };
        Some(PeerNode { address, zone })
    }
}

impl Identity for NodeId {
    type Addr = SocketAddr;

    fn renew(&self) -> Option<NodeId> {
        Some(NodeId { since: self.since.wrapping_add(1), ..self.clone() })
    }
    fn addr(&self) -> SocketAddr {
        self.gossip
    }
    fn win_addr_conflict(&self, other: &NodeId) -> bool {
        self.since > other.since
    }
}

/// Seals packets, where there is a secret.
pub(super) struct Sealer(Option<Key>);

impl Sealer {
    pub(super) fn new(secret: Option<&str>) -> Sealer {
        Sealer(secret.map(|secret| Key::new(HMAC_SHA256, secret.as_bytes())))
    }

    /// The bytes to send.
    pub(super) fn seal(&self, packet: &[u8]) -> Vec<u8> {
        match &self.0 {
            None => packet.to_vec(),
            Some(key) => [packet, sign(key, &[CONTEXT, packet].concat()).as_ref()].concat(),
        }
    }

    /// The packet; `None`: it is too long, or its sender does not have the secret.
    pub(super) fn open<'p>(&self, sent: &'p [u8]) -> Option<&'p [u8]> {
        let seal_len = if self.0.is_some() { SEAL } else { 0 };
        let (packet, seal) = sent.split_at_checked(sent.len().checked_sub(seal_len)?)?;
        if packet.len() > LONGEST_PACKET {
            return None;
        }
        match &self.0 {
            None => Some(packet),
            Some(key) => verify(key, &[CONTEXT, packet].concat(), seal).is_ok().then_some(packet),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foca::{AccumulatingRuntime, Config, Foca, NoCustomBroadcast, PostcardCodec};
    use proptest::prelude::*;
    use rand::{SeedableRng, rngs::SmallRng};

    #[test]
    fn a_packet_counts_with_the_right_seal_alone() {
        let (ours, theirs, none) = (Sealer::new(Some("ours")), Sealer::new(Some("theirs")), Sealer::new(None));
        let sent = ours.seal(b"packet");
        assert_eq!(ours.open(&sent), Some(&b"packet"[..]));
        assert_eq!((theirs.open(&sent), ours.open(&none.seal(b"packet")), ours.open(b"")), (None, None, None));
        for at in 0..sent.len() {
            let mut changed = sent.clone();
            changed[at] ^= 1;
            assert_eq!(ours.open(&changed), None);
        }
        assert_eq!(none.open(b"packet"), Some(&b"packet"[..]));
        for sealer in [&ours, &none] {
            assert!(sealer.open(&sealer.seal(&[0; LONGEST_PACKET])).is_some());
            assert!(sealer.open(&sealer.seal(&[0; LONGEST_PACKET + 1])).is_none(), "too long");
        }
    }

    fn node(port: u16) -> NodeId {
        let http = format!("10.0.0.1:{port}");
        NodeId { gossip: ([10, 0, 0, 1], port).into(), http, zone: "a".to_owned(), since: 1 }
    }
    fn machine(port: u16) -> Foca<NodeId, PostcardCodec, SmallRng, NoCustomBroadcast> {
        Foca::new(node(port), Config::simple(), SmallRng::seed_from_u64(1), PostcardCodec)
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..1400),
            changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        ) {
            let mut runtime = AccumulatingRuntime::new();
            let mut other = machine(2);
            other.announce(NodeId::at(node(1).gossip), &mut runtime).expect("sent");
            let (_, packet) = runtime.to_send().expect("a packet");
            let mut changed = packet.to_vec();
            for (at, to) in changes {
                let len = changed.len();
                changed[at % len] = to;
            }
            for packet in [&packet[..], &changed, &bytes] {
                let mut this = machine(1);
                if let Some(packet) = Sealer::new(None).open(packet) {
                    let _ = this.handle_data(packet, &mut runtime);
                }
                this.iter_members().for_each(|member| drop(member.id().node()));
                // A stranger's packet is not looked at.
                prop_assert_eq!(Sealer::new(Some("secret")).open(packet), None);
            }
            let mut this = machine(1);
            this.handle_data(&packet, &mut runtime).expect("a packet of a node");
            let known: Vec<_> = this.iter_members().filter_map(|member| member.id().node()).collect();
            prop_assert_eq!(known, vec![node(2).node().expect("an address")]);
        }
    }
}
