//! Packets of gossip: who a node is, and the seal that shows `peer-secret`.
//!
//! ```text
//!  with peer-secret:    packet (at most 1300), number (8, big-endian), HMAC with SHA-256 of these (32)
//!  without peer-secret: packet
//! ```
//! The numbers of a node only rise, over restarts too: they begin with its clock. A recorded packet
//! that an attacker sends again has a number that its receiver has seen or passed.
use foca::{Codec, Header, Identity, PostcardCodec};
use larder_config::{PeerAddress, PeerNode};
use larder_store::clock;
use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, net::SocketAddr};

/// The longest packet without number and seal: what no network splits.
pub(super) const LONGEST_PACKET: usize = 1300;
/// Bytes of a seal (HMAC with SHA-256, RFC 2104).
const SEAL: usize = 32;
/// Bytes of a packet's number.
const NUMBER: usize = 8;
/// What is sealed before a packet, so that no other use of the secret makes a valid seal.
const CONTEXT: &[u8] = b"larder gossip 2\n";
/// Packets of senders that this process has not heard before count only if they are not older, by
/// the clocks of both, ms. A node that starts again remembers no numbers.
const OLDEST: u64 = 3_600_000;
/// How far the clock of a node may be ahead, ms. A number from further in the future would lock its
/// sender out until then.
const AHEAD: u64 = 24 * 3_600_000;
/// Senders whose latest number is kept.
const SENDERS: usize = 4096;
/// The longest `host:port` (RFC 1035 allows 253 characters), and the longest zone.
const LONGEST_NAME: usize = 320;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Sent")]
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

/// A node as it is in a packet, before it is checked.
#[derive(Deserialize)]
struct Sent {
    gossip: SocketAddr,
    http: String,
    zone: String,
    since: u64,
}

impl TryFrom<Sent> for NodeId {
    type Error = &'static str;

    fn try_from(Sent { gossip, http, zone, since }: Sent) -> Result<NodeId, &'static str> {
        if http.len() > LONGEST_NAME || zone.len() > LONGEST_NAME {
            return Err("a name is too long");
        }
        // No node could take the address from one that has the last number.
        if since > clock::wall().saturating_add(AHEAD) {
            return Err("a node is from the future");
        }
        Ok(NodeId { gossip, http, zone, since })
    }
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

/// Why a packet does not count.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is too long, or its sender does not have the secret.
    Stranger,
    /// It is a copy of an earlier packet, or the clock of its sender is wrong.
    Repeated(SocketAddr),
}

/// Seals the packets of this node and opens those of others, where there is a secret.
pub(super) struct Sealer(Option<Sealed>);

struct Sealed {
    key: Key,
    /// The number of the last packet.
    last: u64,
    /// What this process has heard of others: the latest number of each sender.
    latest: HashMap<SocketAddr, u64>,
    /// What the number of a sender without a latest one must be above.
    floor: u64,
}

/// The first number of a millisecond.
fn number_at(ms: u64) -> u64 {
    ms.saturating_mul(1000)
}

impl Sealer {
    pub(super) fn new(secret: Option<&str>, now: u64) -> Sealer {
        Sealer(secret.map(|secret| Sealed {
            key: Key::new(HMAC_SHA256, secret.as_bytes()),
            last: 0,
            latest: HashMap::new(),
            floor: number_at(now.saturating_sub(OLDEST)),
        }))
    }

    /// The bytes to send.
    pub(super) fn seal(&mut self, packet: &[u8], now: u64) -> Vec<u8> {
        let Some(sealed) = &mut self.0 else { return packet.to_vec() };
        sealed.last = number_at(now).max(sealed.last.saturating_add(1));
        let number = sealed.last.to_be_bytes();
        [packet, &number, sign(&sealed.key, &[CONTEXT, packet, &number].concat()).as_ref()].concat()
    }

    /// The packet, if it is from a node and not one that was sent before.
    pub(super) fn open<'p>(&mut self, sent: &'p [u8], now: u64) -> Result<&'p [u8], Refused> {
        let added = if self.0.is_some() { NUMBER + SEAL } else { 0 };
        let (packet, added) =
            sent.len().checked_sub(added).and_then(|at| sent.split_at_checked(at)).ok_or(Refused::Stranger)?;
        if packet.len() > LONGEST_PACKET {
            return Err(Refused::Stranger);
        }
        let Some(sealed) = &mut self.0 else { return Ok(packet) };
        let (number, seal) = added.split_first_chunk::<NUMBER>().ok_or(Refused::Stranger)?;
        verify(&sealed.key, &[CONTEXT, packet, number].concat(), seal).map_err(|_| Refused::Stranger)?;
        let Header { src, .. }: Header<NodeId> = PostcardCodec.decode_header(packet).map_err(|_| Refused::Stranger)?;
        match sealed.is_later(src.gossip, u64::from_be_bytes(*number), now) {
            true => Ok(packet),
            false => Err(Refused::Repeated(src.gossip)),
        }
    }
}

impl Sealed {
    /// Whether the sender has sent no later packet than the one with this number, which is noted.
    fn is_later(&mut self, sender: SocketAddr, number: u64, now: u64) -> bool {
        let latest = self.latest.get(&sender).copied().unwrap_or(self.floor);
        if number <= latest || number > number_at(now.saturating_add(AHEAD)) {
            return false;
        }
        self.latest.insert(sender, number);
        // The node that was silent for longest is forgotten; then it is unknown, with at least its last number.
        if self.latest.len() > SENDERS
            && let Some((&silent, &last)) = self.latest.iter().min_by_key(|(_, number)| **number)
        {
            self.latest.remove(&silent);
            self.floor = self.floor.max(last);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foca::{AccumulatingRuntime, Config, Foca, NoCustomBroadcast};
    use proptest::prelude::*;
    use rand::{SeedableRng, rngs::SmallRng};

    const NOW: u64 = 1_700_000_000_000;

    fn sealer(secret: &str) -> Sealer {
        Sealer::new(Some(secret), NOW)
    }
    /// What node 2 asks node 1 with to be told who is there.
    fn announced() -> Vec<u8> {
        let mut runtime = AccumulatingRuntime::new();
        machine(2).announce(NodeId::at(node(1).gossip), &mut runtime).expect("sent");
        runtime.to_send().expect("a packet").1.to_vec()
    }

    #[test]
    fn a_packet_counts_with_the_right_seal_alone() {
        let (mut ours, mut theirs, mut none) = (sealer("ours"), sealer("theirs"), Sealer::new(None, NOW));
        let packet = announced();
        let sent = ours.seal(&packet, NOW);
        assert_eq!(sent.len(), packet.len() + NUMBER + SEAL);
        assert_eq!(theirs.open(&sent, NOW), Err(Refused::Stranger));
        assert_eq!(ours.open(&none.seal(&packet, NOW), NOW), Err(Refused::Stranger));
        assert_eq!(ours.open(b"", NOW), Err(Refused::Stranger));
        for at in 0..sent.len() {
            let mut changed = sent.clone();
            changed[at] ^= 1;
            assert_eq!(ours.open(&changed, NOW), Err(Refused::Stranger));
        }
        assert_eq!(ours.open(&sent, NOW), Ok(&packet[..]));
        assert_eq!(none.open(b"packet", NOW), Ok(&b"packet"[..]));
        assert!(none.open(&[0; LONGEST_PACKET], NOW).is_ok());
        assert!(none.open(&[0; LONGEST_PACKET + 1], NOW).is_err(), "too long");
        let long = ours.seal(&[&packet[..], &[0; LONGEST_PACKET]].concat(), NOW);
        assert_eq!(ours.open(&long, NOW), Err(Refused::Stranger), "too long");
    }

    #[test]
    fn a_recorded_packet_counts_once() {
        let repeated = Err(Refused::Repeated(node(2).gossip));
        let packet = announced();
        let (mut sender, mut receiver) = (sealer("s"), sealer("s"));
        // Several in one millisecond, and with a clock that is set back meanwhile.
        let sent: Vec<_> = [NOW, NOW, NOW - 5000, NOW + 1].map(|now| sender.seal(&packet, now)).into();
        for sent in &sent {
            assert_eq!(receiver.open(sent, NOW), Ok(&packet[..]));
            assert_eq!(receiver.open(sent, NOW), repeated);
        }
        for sent in &sent {
            assert_eq!(receiver.open(sent, NOW), repeated);
            // A day later too, and by a node with the receiver's address that was started then.
            assert_eq!(receiver.open(sent, NOW + AHEAD), repeated);
            assert_eq!(Sealer::new(Some("s"), NOW + AHEAD).open(sent, NOW + AHEAD), repeated);
        }
        // The sender starts again: its numbers begin with its clock.
        let mut again = Sealer::new(Some("s"), NOW + 2000);
        assert_eq!(receiver.open(&again.seal(&packet, NOW + 2000), NOW + 2000), Ok(&packet[..]));
        // A clock that is far ahead locks no node out.
        assert_eq!(receiver.open(&again.seal(&packet, NOW + 2 * AHEAD), NOW + 3000), repeated);
        assert_eq!(receiver.open(&sender.seal(&packet, NOW + 4000), NOW + 4000), Ok(&packet[..]));
    }

    #[test]
    fn senders_beyond_the_bound_are_forgotten_with_the_last_number() {
        let mut receiver = sealer("s").0.expect("a secret");
        let first = number_at(NOW);
        for at in 0..=SENDERS as u64 {
            assert!(receiver.is_later(([10, 0, (at >> 8) as u8, at as u8], 1).into(), first + at, NOW));
        }
        assert_eq!((receiver.latest.len(), receiver.floor), (SENDERS, first));
        let forgotten = ([10, 0, 0, 0], 1).into();
        assert!(!receiver.is_later(forgotten, first, NOW));
        assert!(receiver.is_later(forgotten, first + 1, NOW));
    }

    #[test]
    fn nodes_with_impossible_numbers_or_names_are_not_read() {
        let now = clock::now();
        let read = |id: NodeId| {
            let mut bytes = Vec::new();
            let header = Header { src: id, src_incarnation: 0, dst: node(1), message: foca::Message::Announce };
            PostcardCodec.encode_header(&header, &mut bytes).expect("encoded");
            let read: Result<Header<NodeId>, _> = PostcardCodec.decode_header(&bytes[..]);
            read.is_ok()
        };
        assert!(read(NodeId { since: now, ..node(2) }));
        assert!(read(NodeId { since: now + AHEAD / 2, http: "h".repeat(LONGEST_NAME), ..node(2) }));
        for since in [now + 2 * AHEAD, u64::MAX - 1, u64::MAX] {
            assert!(!read(NodeId { since, ..node(2) }), "{since}");
        }
        assert!(!read(NodeId { http: "h".repeat(LONGEST_NAME + 1), ..node(2) }));
        assert!(!read(NodeId { zone: "z".repeat(LONGEST_NAME + 1), ..node(2) }));
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
                if let Ok(packet) = Sealer::new(None, NOW).open(packet, NOW) {
                    let _ = this.handle_data(packet, &mut runtime);
                }
                this.iter_members().for_each(|member| drop(member.id().node()));
                // A stranger's packet is not looked at.
                prop_assert_eq!(sealer("secret").open(packet, NOW), Err(Refused::Stranger));
            }
            let mut this = machine(1);
            this.handle_data(&packet, &mut runtime).expect("a packet of a node");
            let known: Vec<_> = this.iter_members().filter_map(|member| member.id().node()).collect();
            prop_assert_eq!(known, vec![node(2).node().expect("an address")]);
        }
    }
}
