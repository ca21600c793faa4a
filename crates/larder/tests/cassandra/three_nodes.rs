//! Three nodes with three copies of each row, of which one dies or stops while clients write.
use super::{
    judged_clients::JudgedClients, node_watch::NodeWatch, refusals::refused_writes_go_to_another_node,
    server::CassandraNode,
};
use crate::common::wait_until;
use rustix::process::Signal;

#[test]
#[ignore = "make test-clients"]
fn a_lost_or_stopped_node_loses_nothing_and_counts_nothing_twice() {
    let mut nodes = CassandraNode::three();
    refused_writes_go_to_another_node(&nodes);
    let url = CassandraNode::url_of(&nodes, "histories");
    let mut watch = NodeWatch::start(&url);
    let [_, second, third] = [0, 1, 2].map(|number| nodes[number].address());
    [&second, &third].iter().for_each(|node| wait_until("a node to be up", || watch.metric(node) == Some(1.0)));
    JudgedClients::run(&url, |clients| {
        clients.proceed("three nodes");
        nodes[2].kill();
        watch.wait(&third, Some(0.0), "is away");
        clients.proceed("a node is dead");
        nodes[2].restart();
        watch.wait(&third, Some(1.0), "is back");
        assert_eq!((watch.lines(&third, "is away"), watch.lines(&third, "is back")), (1, 1), "three threads, one line");
        clients.proceed("it is back");
        nodes[1].freeze();
        watch.wait(&second, Some(0.0), "is away");
        clients.proceed("a node has stopped");
        nodes[1].signal(Signal::CONT);
        watch.wait(&second, Some(1.0), "is back");
        clients.proceed("it goes on");
    });
}
