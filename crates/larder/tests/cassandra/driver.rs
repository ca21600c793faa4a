//! What the driver counts, in `/metrics`.
use super::{server::CassandraNode, text};
use crate::larder::Larder;

#[test]
#[ignore = "make test-clients"]
fn the_drivers_counts_are_metrics() {
    let node = CassandraNode::start();
    let larder = Larder::start(&["--source", &node.url("driver"), "--source-timeout", "5s"]);
    let mut client = larder.client();
    let metric = |name: &str| larder.metric(&format!("larder_source_driver_{name}"));
    assert_eq!(text(&mut client, &["SET", "k", "v"]), "OK");
    let before = metric("requests_total");
    assert!(metric("connections") >= 1.0);
    for number in 0..10 {
        assert_eq!(text(&mut client, &["GET", &format!("none:{number}")]), "(nil)");
    }
    assert!(metric("requests_total") >= before + 10.0, "a miss is a request");
    let asked = metric("requests_total");
    for _ in 0..10 {
        assert_eq!(text(&mut client, &["GET", "k"]), "v");
    }
    assert_eq!(metric("requests_total"), asked, "a hit is none");
    assert_eq!((metric("errors_total"), metric("timeouts_total")), (0.0, 0.0));
}
