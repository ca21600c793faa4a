//! Settings of the section “Peers”.
use super::{
    quantities::DAY,
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is},
        SettingSpec,
    },
    value_kind::ValueKind,
};
use crate::peer_settings::{PeerHash, PeerTransport};

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Peers);

pub(super) const PEERS: &[SettingSpec] = &[
    SettingSpec {
        name: "peers",
        kind: ValueKind::PeerEntry,
        optional: true,
        many: true,
        also: &["PEERS_SET"],
        example: "10.0.0.1:8080",
        help: "The nodes that share a cache, including this one, as `host:port` or `http://host:port`. Each key has one owner among them, which fetches it for all. Give every node the same list, or a way to find the nodes: `dns:host:port` (every address of this name), `dns+srv:name` (every target of its SRV records), `gossip:host:port` (all nodes that the node at this address knows), `pods:selector:port` (the ready pods of this namespace that the label selector chooses). `;zone=NAME` after an item names the zone of its nodes (`peer-zone`). See docs/peers.md.",
        ..ROW
    },
    SettingSpec {
        name: "peers-refresh",
        kind: ValueKind::Duration { min: 100, max: DAY },
        default: Is("10s"),
        example: "1s",
        help: "With `dns:` and `dns+srv:` in `peers`: time between two look-ups, plus or minus a quarter. With `gossip:`: time between two attempts to reach the named nodes. With `pods:`: how long a pod that is no longer ready stays on the ring.",
        ..ROW
    },
    SettingSpec {
        name: "peers-service-account",
        kind: ValueKind::Path,
        default: Is("/var/run/secrets/kubernetes.io/serviceaccount"),
        example: "/run/larder/account",
        help: "Folder of the pod's service account, with `token`, `ca.crt` and `namespace`. Set it if the pod mounts a token of its own (a projected volume). Larder reads the first two again for each connection.",
        ..ROW
    },
    SettingSpec {
        name: "peers-dns-server",
        kind: ValueKind::Address,
        default: Computed("the first `nameserver` of `/etc/resolv.conf`"),
        optional: true,
        example: "10.96.0.10:53",
        help: "Name server for SRV records (`dns+srv:`). Set it if another server than the system's has \
               them, such as Consul's on port 8600. The system's resolver looks up other names.",
        ..ROW
    },
    SettingSpec {
        name: "peer-gossip",
        kind: ValueKind::Address,
        default: Computed("the address of `peer-self` with port 7946, or all addresses if that is a name"),
        optional: true,
        example: "10.0.0.1:7946",
        help: "UDP address that this node listens on for gossip (`peers` with `gossip:`). Other nodes reach it at the host of `peer-self` and this port. With `peer-secret`, Larder ignores packets that do not show the secret.",
        ..ROW
    },
    SettingSpec {
        name: "peer-self",
        kind: ValueKind::Peer,
        default: Computed(
            "the address of `http`, if it is one and names a host; with `pods:` the variable `POD_IP` and the port of the pods",
        ),
        optional: true,
        also: &["PEERS_SELF"],
        example: "10.0.0.1:8080",
        help: "This node's name, as `peers` of the other nodes has it. With `dns:` it is the address that they find, with `dns+srv:` the name or the address, with `pods:` the address of the pod.",
        ..ROW
    },
    SettingSpec {
        name: "peer-zone",
        kind: ValueKind::Zone,
        default: Computed("the zone of this node in `peers`"),
        optional: true,
        example: "eu-1a",
        help: "The zone of this node. A read of a key whose owner is in another zone goes to one node of this zone, which asks the owner and keeps a copy for `hot-copy-ttl`. The nodes know each other's zones from `peers` (`host:port;zone=eu-1a`). Not together with `peer-bounded-load`.",
        ..ROW
    },
    SettingSpec {
        name: "peer-bounded-load",
        kind: ValueKind::LoadFactor,
        optional: true,
        example: "1.25",
        help: "Bounds the reads in flight at the owner of a key, as a multiple of the mean of all nodes. If this node has more reads in flight there, it reads the key from the next node on the ring. Keys may then be fetched more than once. Not together with `peer-zone`.",
        ..ROW
    },
    SettingSpec {
        name: "peer-hash",
        kind: ValueKind::Choice(PeerHash::NAMES),
        default: Is("xxh3"),
        example: "fnv1",
        help: "Hash function of the ring, the same on all nodes. `xxh3` spreads all keys evenly. A ring with Go nodes needs theirs: `fnv1` for groupcache-go v3, `fnv1-url` for mailgun's groupcache from v2.2.1, `crc32` for the original groupcache and mailgun's up to v2.2.0. With the last two, the names of nodes on the ring are URLs.",
        ..ROW
    },
    SettingSpec {
        name: "peer-transport",
        kind: ValueKind::Choice(PeerTransport::NAMES),
        default: Is("http"),
        example: "grpc",
        help: "Protocol of this node's requests to its peers: `http` for groupcache's messages, \
               `grpc` for Larder nodes only, whose requests then share connections. A node answers \
               both on its HTTP listener.",
        ..ROW
    },
    SettingSpec {
        name: "peer-shared",
        kind: ValueKind::Switch,
        default: Is("true"),
        per_group: true,
        example: "false",
        help: "Whether the group's keys have owners among `peers`. Set it to `false` for groups that the Go nodes of the ring lack: the nodes then do not ask each other for the group's keys. Groups with a `disk:` or `table:` source are never shared.",
        ..ROW
    },
    SettingSpec {
        name: "hot-copy-ttl",
        kind: ValueKind::Duration { min: 0, max: DAY },
        default: Is("10s"),
        example: "1s",
        help: "Maximum lifetime of a copy of another node's key. `0`: no copies; every read of such a key goes to its owner.",
        ..ROW
    },
    SettingSpec {
        name: "hot-copy-after",
        kind: ValueKind::Count { min: 1, max: 100 },
        default: Is("2"),
        example: "10",
        help: "Number of reads of another node's key within ten seconds after which this node keeps \
               a copy.",
        ..ROW
    },
    SettingSpec {
        name: "peer-secret",
        kind: ValueKind::Secret,
        optional: true,
        example: "correct horse",
        help: "Secret that nodes send to each other, as `Authorization: Bearer …`. Without it, \
               every client that reaches the HTTP listener can use the routes between nodes \
               (`/_groupcache/`, gRPC). Go nodes need a client that sends the header.",
        ..ROW
    },
    SettingSpec {
        name: "peer-secret-file",
        kind: ValueKind::Path,
        optional: true,
        example: "/run/secrets/larder-peers",
        help: "File with the `peer-secret`, in one line, like `password-file`.",
        ..ROW
    },
    SettingSpec {
        name: "peer-tls-ca",
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/nodes-ca.crt",
        help: "Certificate authorities for the nodes' certificates, PEM. If it is set, nodes speak TLS to each other, at their `https` addresses, with the first `tls-cert` as the node's certificate, and only nodes with a certificate of these authorities are served. Set it on every node. With the file of `tls-client-ca`, every client with a certificate counts as a node.",
        ..ROW
    },
    SettingSpec {
        name: "peer-tls-name",
        kind: ValueKind::Hostname,
        optional: true,
        example: "larder.internal",
        help: "Host name in the certificate of every node. Without it, a certificate must be for \
               the host of the node's address, which is an IP address for nodes found by `dns:`.",
        ..ROW
    },
    SettingSpec {
        name: "peer-handover",
        kind: ValueKind::Size { min: 0, max: 16 << 30 },
        default: Is("64MiB"),
        example: "1GiB",
        help: "Number of entries that a node passes on to each other node when it leaves, and takes \
               over from each when it starts, the hottest first. `0`: none.",
        ..ROW
    },
];
