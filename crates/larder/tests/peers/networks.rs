//! Nodes on hosts of their own, whose network loses packets and is cut.
use super::{
    common::{RedisServer, wait_until},
    network::{HTTP, Network},
};

/// Three nodes.
fn start(number: u8, args: &[&str]) -> Network {
    let subnet = Network::subnet(number);
    let peers: Vec<String> = (1..=3).map(|host| format!("{subnet}.{host}:{HTTP}")).collect();
    let of_host = |address: &String| {
        let own = ["--peers", &peers.join(","), "--peer-self", address].map(str::to_owned);
        own.into_iter().chain(args.iter().map(|arg| (*arg).to_owned())).collect()
    };
    Network::start(number, &peers.iter().map(of_host).collect::<Vec<_>>())
}

/// The number of the host that owns a key.
fn owner(network: &Network, key: &str) -> usize {
    let said: serde_json::Value =
        serde_json::from_str(&network.request(1, "GET", &format!("/v1/peers?key={key}"), "").1).unwrap();
    let address = said["owner"].as_str().unwrap();
    network.hosts().find(|host| network.address(*host, HTTP).to_string() == address).unwrap()
}

#[test]
#[ignore = "make test-networks"]
fn packets_that_are_lost_cost_time_and_no_answer() {
    let network = start(1, &["--source", "demo:", "--hot-copy-ttl", "0"]);
    let loss = "-m statistic --mode random --probability 0.1";
    (1..=3).for_each(|host| network.filter(host, "I", loss));
    let keys: Vec<String> = (0..40).map(|number| format!("key-{number:x}-abc")).collect();
    for key in &keys {
        for host in 1..=3 {
            assert!(network.read(host, key).contains(&format!("\"guid\":\"{key}\"")), "{key}");
        }
    }
    (1..=3).for_each(|host| network.filter(host, "D", loss));
    // A node that lost too much was taken for gone; it is asked again, and then all give the owner's
    // copy.
    for key in &keys {
        let owned = network.read(owner(&network, key), key);
        wait_until("all to give the owner's copy", || (1..=3).all(|host| network.read(host, key) == owned));
    }
}

#[test]
#[ignore = "make test-networks"]
fn a_host_that_was_cut_off_hears_of_what_it_has_missed() {
    let redis = RedisServer::with(&["--bind", "0.0.0.0", "--protected-mode", "no"]);
    let source = format!("redis://10.77.2.254:{}", redis.port());
    // Without being told, the host would have its copy until the test gives up.
    let args =
        ["--source", &source, "--coherence", "ttl", "--ttl", "1h", "--hot-copy-ttl", "1h:1", "--source-timeout", "2s"];
    let network = start(2, &args);
    let keys: Vec<String> = (0..30).map(|number| format!("key-{number:x}-abc")).collect();
    for key in &keys {
        redis.command(&["SET", key, "old"]);
        (1..=3).for_each(|host| assert_eq!(network.read(host, key), "old"));
    }
    network.cut(3);
    // Each of the two, for keys of both and of the one that is cut off.
    let some: Vec<&String> = (1..=3).filter_map(|host| keys.iter().find(|key| owner(&network, key) == host)).collect();
    assert_eq!(some.len(), 3, "each owns one of the keys");
    for key in &some {
        let (status, body) = network.request(1, "PUT", &format!("/v1/kv/{key}"), "new");
        assert!(status < 300, "{key}: {status} {body}");
        assert_eq!((network.read(1, key), network.read(2, key)), ("new".into(), "new".into()), "{key}");
        assert_eq!(network.read(3, key), "old", "{key}: nobody can tell it");
    }
    network.heal(3);
    for key in &some {
        wait_until("the host to hear of it", || network.read(3, key) == "new");
    }
}
