//! Settings of the section “Peers”.
use super::{
    quantities::DAY,
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is, Off},
        SettingSpec,
    },
    value_kind::{
        ADDRESS, HOSTNAME, HOT_COPIES, LOAD_FACTOR, PEER, PEER_ENTRY,
        ValueKind::{Choice, Duration, Path, Secret, Size, Switch},
        ZONE,
    },
};
use crate::peer_settings::{PeerHash, PeerTransport};

settings! { SettingSection::Peers;
    /// The nodes that share a cache, including this one, as `host:port` or `http://host:port`. Each key
    /// has one owner among them, which fetches it for all. Give every node the same list, or a way to
    /// find the nodes: `dns:host:port` (every address of this name), `dns+srv:name[@server]` (every
    /// target of its SRV records; `server` is the name server to ask, such as Consul's
    /// `127.0.0.1:8600`, if it is not the system's), `gossip:host:port` (all nodes that the node at
    /// this address knows), `pods:selector:port` (the ready pods of this namespace that the label
    /// selector chooses). `;zone=NAME` after an item names the zone of its nodes (`peer-zone`). See
    /// docs/peers.md.
    "peers": PEER_ENTRY => Off, example("10.0.0.1:8080"), optional, many, also(&["PEERS_SET"]);

    /// With `dns:` and `dns+srv:` in `peers`: time between two look-ups, plus or minus a quarter. With
    /// `gossip:`: time between two attempts to reach the named nodes. With `pods:`: how long a pod that
    /// is no longer ready stays on the ring.
    "peers-refresh": Duration { min: 100, max: DAY } => Is("10s"), example("1s");

    /// Folder of the pod's service account, with `token`, `ca.crt` and `namespace`. Set it if the pod
    /// mounts a token of its own (a projected volume). Larder reads the first two again for each
    /// connection.
    "peers-service-account": Path => Is("/var/run/secrets/kubernetes.io/serviceaccount"),
        example("/run/larder/account");

    /// UDP address that this node listens on for gossip (`peers` with `gossip:`). Other nodes reach it
    /// at the host of `peer-self` and this port. With `peer-secret`, Larder ignores packets that do not
    /// show the secret.
    "peer-gossip": ADDRESS => Computed("the address of `peer-self` with port 7946, or all addresses if that is a name"),
        example("10.0.0.1:7946"), optional;

    /// This node's name, as `peers` of the other nodes has it. With `dns:` it is the address that they
    /// find, with `dns+srv:` the name or the address, with `pods:` the address of the pod.
    "peer-self": PEER => Computed("the address of `http`, if it is one and names a host; with `pods:` the variable `POD_IP` and the port of the pods"),
        example("10.0.0.1:8080"), optional, also(&["PEERS_SELF"]);

    /// The zone of this node. A read of a key whose owner is in another zone goes to one node of this
    /// zone, which asks the owner and keeps a copy for `hot-copy-ttl`. The nodes know each other's
    /// zones from `peers` (`host:port;zone=eu-1a`). Not together with `peer-bounded-load`.
    "peer-zone": ZONE => Computed("the zone of this node in `peers`"), example("eu-1a"), optional;

    /// Bounds the reads in flight at the owner of a key, as a multiple of the mean of all nodes. If
    /// this node has more reads in flight there, it reads the key from the next node on the ring. Keys
    /// may then be fetched more than once. Not together with `peer-zone`.
    "peer-bounded-load": LOAD_FACTOR => Off, example("1.25"), optional;

    /// Hash function of the ring, the same on all nodes. `xxh3` spreads all keys evenly. A ring with Go
    /// nodes needs theirs: `fnv1` for groupcache-go v3, `fnv1-url` for mailgun's groupcache from
    /// v2.2.1, `crc32` for the original groupcache and mailgun's up to v2.2.0. With the last two, the
    /// names of nodes on the ring are URLs.
    "peer-hash": Choice(PeerHash::NAMES) => Is("xxh3"), example("fnv1");

    /// Protocol of this node's requests to its peers: `http` for groupcache's messages, `grpc` for
    /// Larder nodes only, whose requests then share connections. A node answers both on its HTTP
    /// listener.
    "peer-transport": Choice(PeerTransport::NAMES) => Is("http"), example("grpc");

    /// Whether the group's keys have owners among `peers`. Set it to `false` for groups that the Go
    /// nodes of the ring lack: the nodes then do not ask each other for the group's keys. Groups with a
    /// `disk:` or `table:` source are never shared.
    "peer-shared": Switch => Is("true"), example("false"), per_group;

    /// Maximum lifetime of a copy of another node's key. `0`: no copies; every read of such a key goes
    /// to its owner. A key is copied after two reads within ten seconds, or with `10s:5` after five:
    /// set it if too many keys are copied that are read rarely.
    "hot-copy-ttl": HOT_COPIES => Is("10s"), example("1s");

    /// Secret that nodes send to each other, as `Authorization: Bearer …`. Without it, every client
    /// that reaches the HTTP listener can use the routes between nodes (`/_groupcache/`, gRPC). Go
    /// nodes need a client that sends the header. `@FILE` reads it from a file, like `password`.
    "peer-secret": Secret => Off, example("correct horse"), optional;

    /// Certificate authorities for the nodes' certificates, PEM. If it is set, nodes speak TLS to each
    /// other, at their `https` addresses, with the first `tls-cert` as the node's certificate, and only
    /// nodes with a certificate of these authorities are served. Set it on every node. With the file of
    /// `tls-client-ca`, every client with a certificate counts as a node.
    "peer-tls-ca": Path => Off, example("/etc/larder/nodes-ca.crt"), optional;

    /// Host name in the certificate of every node. Without it, a certificate must be for the host of
    /// the node's address, which is an IP address for nodes found by `dns:`.
    "peer-tls-name": HOSTNAME => Off, example("larder.internal"), optional;

    /// Number of entries that a node passes on to each other node when it leaves, and takes over from
    /// each when it starts, the hottest first. `0`: none.
    "peer-handover": Size { min: 0, max: 16 << 30 } => Is("64MiB"), example("1GiB");
}
