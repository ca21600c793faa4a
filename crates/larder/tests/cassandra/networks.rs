//! Nodes on hosts of their own, with three copies of each row, while clients write: one is cut off,
//! each is restarted, one joins.
use super::{
    judged_clients::JudgedClients,
    node_watch::NodeWatch,
    server::{CassandraNode, wait_for_cluster},
};
use crate::network::Network;
use std::sync::Arc;

#[test]
#[ignore = "make test-networks"]
fn networks_that_are_cut_restarts_and_a_new_node_lose_nothing_and_count_nothing_twice() {
    let network = Arc::new(Network::without_larders(6, 4));
    let mut nodes = CassandraNode::three_on(Some(&network));
    let url = CassandraNode::url_of(&nodes, "histories");
    let mut watch = NodeWatch::start(&url);
    for node in &nodes {
        wait_for_cluster("a node to be up", || watch.metric(&node.address()) == Some(1.0));
    }
    JudgedClients::run(&url, |clients| {
        clients.proceed("three nodes");
        network.cut(3);
        wait_until_others_find(&nodes, 2, false);
        wait_for_cluster("the third to be alone", || nodes[..2].iter().all(|other| !nodes[2].sees(other)));
        // Larder still reaches the third and sends it a part of the requests.
        assert_ne!(clients.proceed("the third is cut off"), 0, "the third answers without the others");
        network.heal(3);
        wait_until_others_find(&nodes, 2, true);
        wait_for_cluster("the third to be back", || nodes[..2].iter().all(|other| nodes[2].sees(other)));
        clients.proceed("it is back");
        for number in 0..3 {
            let address = nodes[number].address();
            nodes[number].stop();
            watch.wait(&address, Some(0.0), "is away");
            wait_until_others_find(&nodes, number, false);
            clients.proceed(&format!("{address} has stopped"));
            nodes[number].start_again();
            watch.wait(&address, Some(1.0), "is back");
            wait_until_others_find(&nodes, number, true);
            clients.proceed(&format!("{address} is back"));
        }
        // The nodes learn one after the other that the fourth has its rows. Until all know it, some read
        // from other replicas than those to which others write, and two of three need not meet.
        clients.with_old_reads(|| {
            nodes.push(nodes[0].join());
            wait_for_cluster("all to know the fourth and its rows", || {
                nodes.iter().all(|node| {
                    let peers = node.cql(&["SELECT tokens FROM system.peers_v2"]);
                    peers.len() == 3 && peers.iter().all(|peer| peer.columns[0].is_some())
                })
            });
        });
        watch.wait(&nodes[3].address(), Some(1.0), "has joined");
        assert!(nodes[3].has_files_of("histories"), "{}", nodes[3].log());
        clients.proceed("a fourth has joined");
        // Without the first, two of three copies are often one of the second or third and the fourth's.
        nodes[0].kill();
        watch.wait(&nodes[0].address(), Some(0.0), "is away");
        clients.proceed("the first is dead");
    });
}

/// Waits until this is what the nodes have found of one of them.
fn wait_until_others_find(nodes: &[CassandraNode], one: usize, is_up: bool) {
    wait_for_cluster("the others to find a node up or down", || {
        let mut others = nodes.iter().enumerate().filter(|(number, _)| *number != one);
        others.all(|(_, other)| other.sees(&nodes[one]) == is_up)
    });
}
