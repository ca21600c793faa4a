//! Nodes in zones, and nodes that pass keys on while much is under way at their owner.
use super::{
    common::{Client, Reply},
    fleet::{Fleet, over_each_transport, read, send},
};

over_each_transport!(
    a_zone_asks_the_owner_in_another_once_and_hears_of_removals,
    a_reader_that_is_gone_is_passed_over,
    an_owner_with_much_under_way_is_spared,
);

/// What a node has asked each node, by number.
fn asked(fleet: &Fleet, number: usize) -> Vec<u64> {
    let of = fleet.peers(number);
    let reads = |port: u16| {
        let name = format!("127.0.0.1:{port}");
        let peer = of["peers"].as_array().unwrap().iter().find(|peer| peer["name"] == name).unwrap().clone();
        peer["reads"].as_u64().unwrap()
    };
    fleet.ports.iter().map(|port| reads(port.number)).collect()
}

/// Four nodes in two zones. Copies are kept by the readers of the zones alone.
fn two_zones(transport: &str) -> Fleet {
    let args = ["--source", "demo:", "--threads", "1", "--hot-copy-ttl", "1h:100"];
    Fleet::in_zones(2, 4, &[&args[..], &["--peer-transport", transport]].concat())
}

fn a_zone_asks_the_owner_in_another_once_and_hears_of_removals(transport: &str) {
    let fleet = two_zones(transport);
    let peers = fleet.peers(0);
    let zone = |number: usize| {
        let name = format!("127.0.0.1:{}", fleet.ports[number].number);
        peers["peers"].as_array().unwrap().iter().find(|peer| peer["name"] == name).unwrap()["zone"].clone()
    };
    assert_eq!((0..4).map(zone).collect::<Vec<_>>(), ["z0", "z1", "z0", "z1"]);
    for owner in [0, 1] {
        let others = [1 - owner, 3 - owner];
        for key in fleet.keys_of(owner).take(3) {
            let before: Vec<_> = others.iter().map(|node| asked(&fleet, *node)).collect();
            let values: Vec<_> = (0..12).map(|turn| read(&fleet.nodes[others[turn % 2]], &key).unwrap()).collect();
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
            let more = |at: usize, of: usize| asked(&fleet, others[at])[of] - before[at][of];
            let of_owner = [more(0, owner), more(1, owner)];
            assert_eq!(
                of_owner.iter().sum::<u64>(),
                1,
                "{key}: one node of the zone asked the owner, once: {of_owner:?}"
            );
            let reader = usize::from(of_owner[1] == 1);
            assert_eq!(more(1 - reader, others[reader]), 6, "{key}: the other node asked that one each time");
        }
        // Whichever node removes a key, all read its new value at once.
        let key = fleet.keys_of(owner).nth(3).unwrap();
        for remover in 0..4 {
            let old: Vec<_> = (0..8).map(|turn| read(&fleet.nodes[turn % 4], &key).unwrap()).collect();
            assert_eq!(send(&fleet.nodes[remover], "DELETE", &format!("/v1/keys?key={key}"), ""), 204);
            let new: Vec<_> = (0..8).map(|turn| read(&fleet.nodes[turn % 4], &key).unwrap()).collect();
            assert!(new.iter().all(|value| *value == new[0] && *value != old[0]), "{old:?} {new:?}");
        }
        let old = read(&fleet.nodes[others[0]], &key).unwrap();
        assert_eq!(read(&fleet.nodes[others[1]], &key).unwrap(), old);
        assert_eq!(send(&fleet.nodes[others[0]], "DELETE", "/v1/groups/default", ""), 204);
        let new: Vec<_> = fleet.nodes.iter().map(|node| read(node, &key).unwrap()).collect();
        assert!(new.iter().all(|value| *value == new[0] && *value != old), "{old:?} {new:?}");
    }
}

fn a_reader_that_is_gone_is_passed_over(transport: &str) {
    let mut fleet = two_zones(transport);
    let keys: Vec<String> = fleet.keys_of(0).take(12).collect();
    drop(fleet.nodes.pop());
    for key in &keys {
        let values = [1, 0].map(|node| read(&fleet.nodes[node], key).unwrap());
        assert_eq!(values[0], values[1], "{key}: the owner has filled it for both");
    }
    let of_reader = asked(&fleet, 1);
    assert!(of_reader[3] > 0 && of_reader[0] as usize == keys.len(), "{of_reader:?}");
}

fn an_owner_with_much_under_way_is_spared(transport: &str) {
    let passed_on = |fleet: &Fleet| fleet.nodes[0].metric("larder_peer_passed_on_total{group=\"default\"}");
    for (args, spares) in [(&[][..], false), (&["--peer-bounded-load", "1.25"], true)] {
        let common = ["--source", "demo:?delay=500ms", "--threads", "1", "--peer-transport", transport];
        let fleet = Fleet::start(3, &[&common, args].concat());
        let keys: Vec<String> = fleet.keys_of(1).take(30).collect();
        let mut clients: Vec<Client> = keys.iter().map(|_| fleet.nodes[0].client()).collect();
        for (client, key) in clients.iter_mut().zip(&keys) {
            client.send(&["GET", key]).unwrap();
        }
        for (client, key) in clients.iter_mut().zip(&keys) {
            match client.read().unwrap() {
                Reply::Bulk(Some(value)) => assert!(String::from_utf8(value).unwrap().contains(key.as_str())),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(passed_on(&fleet) > 0.0, spares);
        if !spares {
            continue;
        }
        // 1.25 times a third of 30 is 12.5; messages need not arrive in order.
        let of_owner = asked(&fleet, 0)[1];
        assert!((5..=16).contains(&of_owner), "{of_owner} of 30 reads went to the owner");
        // Removals reach all nodes, whichever has filled the key.
        for key in &keys[..3] {
            let old = read(&fleet.nodes[0], key).unwrap();
            assert_eq!(send(&fleet.nodes[2], "DELETE", &format!("/v1/keys?key={key}"), ""), 204);
            let new: Vec<_> = fleet.nodes.iter().map(|node| read(node, key).unwrap()).collect();
            assert!(new.iter().all(|value| *value == new[0] && *value != old), "{old} {new:?}");
        }
    }
}
