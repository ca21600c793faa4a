//! Nodes that tell each other who is there (SWIM, Das, Gupta and Motivala 2002; the library
//! `foca`).
//!
//! Each node asks another one every [`PROBE`] whether it is there, in turn. If that does not
//! answer, others are asked to ask it. If it does not answer them either it is suspect, and gone
//! [`SUSPECT`] later unless it says that it is there. What a node learns it adds to the packets
//! that it sends anyway.
//!
//! A node that the others took for gone was not told what was removed meanwhile. When it hears
//! that, it forgets its copies, and joins again.
use super::{
    found_nodes::FoundNodes,
    gossip_packets::{LONGEST_PACKET, NodeId, Refused, Sealer},
    names::addresses,
};
use crate::peer::standing::Standing;
use foca::{
    AccumulatingRuntime, Config, Foca, NoCustomBroadcast, OwnedNotification, PeriodicParams, PostcardCodec, Timer,
};
use larder_base::telemetry::LogLimiter;
use larder_config::{GOSSIP_PORT, PeerDiscovery};
use larder_source::jittered;
use larder_store::clock;
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::{NonZeroU8, NonZeroUsize},
    time::Duration,
};
use tokio::{
    net::UdpSocket,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, sleep, sleep_until, timeout},
};

/// Between two questions whether a node is there.
const PROBE: Duration = Duration::from_millis(500);
/// How long its answer may take before others are asked to ask.
const ANSWER: Duration = Duration::from_millis(150);
/// How long a node that has not answered may say that it is there.
const SUSPECT: Duration = Duration::from_millis(1500);
/// How often nodes that are gone are asked whether they are back.
const ASK_THE_GONE: Duration = Duration::from_secs(2);
/// How often news is sent besides.
const NEWS: Duration = Duration::from_millis(200);
/// Between two attempts to reach the named nodes at the start.
const FIRST_ATTEMPTS: Duration = Duration::from_millis(200);
/// How long the first answer of a node may be followed by others.
const MORE_ANSWERS: Duration = Duration::from_millis(100);
/// Nodes that are put on the ring.
const MOST: usize = 4096;

pub(super) struct Gossip {
    found: FoundNodes,
    socket: UdpSocket,
    sealer: Sealer,
    foca: Foca<NodeId, PostcardCodec, SmallRng, NoCustomBroadcast>,
    runtime: AccumulatingRuntime<NodeId>,
    timers: (UnboundedSender<Timer<NodeId>>, UnboundedReceiver<Timer<NodeId>>),
    /// Packets that were received at a time.
    input: Vec<u8>,
    /// When a packet that was sent before is logged.
    repeated: LogLimiter,
}

/// A network that doubles a packet does no harm either.
fn note_repeated(seldom: &LogLimiter, sender: SocketAddr) {
    if let Some(unlogged) = seldom.due(std::time::Instant::now()) {
        tracing::warn!(
            %sender, unlogged,
            "a gossip packet is refused: it was sent before, or the clock of its node was set back or is wrong"
        );
    }
}

fn config() -> Config {
    let few = |number| NonZeroUsize::new(number).expect("not 0");
    let every = |frequency, number| Some(PeriodicParams { frequency, num_members: few(number) });
    Config {
        probe_period: PROBE,
        probe_rtt: ANSWER,
        num_indirect_probes: few(3),
        max_transmissions: NonZeroU8::new(10).expect("not 0"),
        suspect_to_down_after: SUSPECT,
        remove_down_after: Some(Duration::from_secs(24 * 3600)),
        max_packet_size: few(LONGEST_PACKET),
        notify_down_members: true,
        periodic_announce: every(Duration::from_secs(5), 1),
        periodic_announce_to_down_members: every(ASK_THE_GONE, 2),
        periodic_gossip: every(NEWS, 3),
    }
}

impl Gossip {
    /// # Errors
    /// The address cannot be listened on, or the others could not reach it.
    pub(super) async fn new(found: FoundNodes) -> Result<Gossip, String> {
        let this = found.peers.this().clone();
        let listen = match (found.peers.settings.gossip, this.host.parse::<IpAddr>()) {
            (Some(address), _) => address,
            (None, Ok(ip)) => SocketAddr::new(ip, GOSSIP_PORT),
            (None, Err(_)) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, GOSSIP_PORT)),
        };
        let socket = UdpSocket::bind(listen)
            .await
            .map_err(|error| format!("cannot listen on UDP {listen} (peer-gossip): {error}"))?;
        let port = socket.local_addr().map_err(|error| error.to_string())?.port();
        let reached = addresses(&this).await.map_err(|error| format!("peer-self {this}: {error}"))?;
        let reached = reached.iter().find(|address| address.is_ipv4() == listen.is_ipv4());
        let ip = reached.ok_or_else(|| format!("peer-self {this} has no address of the family of {listen}"))?.ip();
        let id = NodeId {
            gossip: SocketAddr::new(ip, port),
            http: this.to_string(),
            zone: found.peers.settings.zone.as_ref().map_or_else(String::new, ToString::to_string),
            since: clock::wall(),
        };
        let sealer = Sealer::new(found.peers.settings.secret.as_deref(), clock::wall());
        let foca = Foca::new(id, config(), SmallRng::seed_from_u64(fastrand::u64(..)), PostcardCodec);
        let (runtime, timers, input) = (AccumulatingRuntime::new(), unbounded_channel(), vec![0; 2 * LONGEST_PACKET]);
        let repeated = LogLimiter::new(Duration::from_secs(60));
        Ok(Gossip { found, socket, sealer, foca, runtime, timers, input, repeated })
    }

    /// Asks the named nodes until one has said who is there. A node that names itself alone is the
    /// first.
    pub(super) async fn look_up(&mut self) {
        loop {
            if self.ask_seeds().await == 0 {
                return;
            }
            let until = Instant::now() + FIRST_ATTEMPTS;
            while self.foca.num_members() == 0 && Instant::now() < until {
                self.step(until).await;
            }
            if self.foca.num_members() > 0 {
                break;
            }
        }
        let until = Instant::now() + MORE_ANSWERS;
        while Instant::now() < until {
            self.step(until).await;
        }
    }

    pub(super) async fn keep_looking(mut self) {
        let peers = self.found.peers.clone();
        let mut again = Instant::now() + jittered(peers.settings.refresh);
        while peers.standing() != Standing::Left {
            if Instant::now() >= again {
                // All that were known may have been replaced.
                self.ask_seeds().await;
                again = Instant::now() + jittered(peers.settings.refresh);
            }
            tokio::select! {
                () = peers.reached(Standing::Left) => {}
                () = self.step(again) => {}
            }
        }
        if let Err(error) = self.foca.leave_cluster(&mut self.runtime) {
            tracing::debug!(%error, "the other nodes are not told that this one leaves");
        }
        self.act().await;
    }

    /// Asks the nodes that the settings name who is there. How many were asked.
    async fn ask_seeds(&mut self) -> usize {
        let PeerDiscovery::Gossip(seeds) = self.found.peers.settings.discovery.clone() else { return 0 };
        let mut asked = 0;
        for seed in &seeds {
            match addresses(seed).await {
                Ok(addresses) => {
                    let this = self.foca.identity().gossip;
                    for address in addresses.into_iter().filter(|address| *address != this) {
                        asked += 1;
                        let announced = self.foca.announce(NodeId::at(address), &mut self.runtime);
                        self.note(announced);
                    }
                }
                Err(error) => {
                    // It may come to be known.
                    asked += 1;
                    tracing::debug!(%seed, %error, "a node to gossip with is not found");
                }
            }
        }
        self.act().await;
        asked
    }

    /// Handles one packet or timer, if one comes by then.
    async fn step(&mut self, until: Instant) {
        tokio::select! {
            received = self.socket.recv_from(&mut self.input) => {
                if let Ok((len, _)) = received {
                    match self.sealer.open(&self.input[..len], clock::wall()) {
                        Ok(packet) => {
                            let handled = self.foca.handle_data(packet, &mut self.runtime);
                            self.note(handled);
                        }
                        Err(Refused::Repeated(sender)) => note_repeated(&self.repeated, sender),
                        Err(Refused::Stranger) => {}
                    }
                }
            }
            Some(timer) = self.timers.1.recv() => {
                let handled = self.foca.handle_timer(timer, &mut self.runtime);
                self.note(handled);
            }
            () = sleep_until(until) => return,
        }
        self.act().await;
    }

    /// Packets of strangers, and late ones, are errors that need no action.
    fn note(&self, handled: Result<(), foca::Error>) {
        if let Err(error) = handled {
            tracing::trace!(%error, "gossip");
        }
    }

    /// Does what the protocol wants done.
    async fn act(&mut self) {
        while let Some((to, packet)) = self.runtime.to_send() {
            let sealed = self.sealer.seal(&packet, clock::wall());
            // A datagram is sent at once, or never.
            if let Ok(Err(error)) = timeout(ANSWER, self.socket.send_to(&sealed, to.gossip)).await {
                tracing::trace!(%error, to = %to.gossip, "gossip");
            }
        }
        while let Some((delay, timer)) = self.runtime.to_schedule() {
            let timers = self.timers.0.clone();
            tokio::task::spawn_local(async move {
                sleep(delay).await;
                // The receiver is gone once this node has left.
                let _ = timers.send(timer);
            });
        }
        let mut has_changed = false;
        while let Some(notification) = self.runtime.to_notify() {
            match notification {
                OwnedNotification::MemberUp(_) | OwnedNotification::MemberDown(_) | OwnedNotification::Rename(..) => {
                    has_changed = true;
                }
                OwnedNotification::Rejoin(_) => {
                    tracing::warn!("the other nodes took this one for gone: it forgets its copies, and joins again");
                    self.found.peers.forget_copies();
                }
                _ => {}
            }
        }
        if has_changed {
            let nodes = self.foca.iter_members().filter_map(|member| member.id().node()).take(MOST);
            let nodes = nodes.collect();
            self.found.take(Ok(nodes));
        }
    }
}
