//! A cluster as a source. Commands, transactions and faults are in the suite `cassandra`.
use super::{LIMITS, conformance, open, run};
use crate::cassandra::server::CassandraNode;
use larder_config::SourceUrl;
use larder_source::{FillPolicy, Revision};
use larder_store::{StoredValue, ValueKind};

fn url(node: &CassandraNode, keyspace: &str) -> SourceUrl {
    node.url(keyspace).parse().expect("a URL")
}

#[test]
#[ignore = "make test-clients"]
fn conformance_cassandra() {
    let node = CassandraNode::shared();
    let url = url(&node, "conformance");
    run(async {
        let group = open(&url, LIMITS, FillPolicy::default());
        group.until_up().await;
        conformance(&group, true).await;
    });
    // Once more, with what the first left.
    run(async { conformance(&open(&url, LIMITS, FillPolicy::default()), true).await });
}

#[test]
#[ignore = "make test-clients"]
fn a_change_demands_the_revision_that_it_rests_on() {
    let node = CassandraNode::shared();
    let url = url(&node, "revisions");
    run(async {
        let (group, other) = (open(&url, LIMITS, FillPolicy::default()), open(&url, LIMITS, FillPolicy::default()));
        let (store, beside) = (group.shared().expect("shared"), other.shared().expect("shared"));
        let entry = |text: &'static str| StoredValue::string(text, None);
        assert_eq!(store.read(b"k").await, Ok((None, Revision(None))));
        assert_eq!(store.change_if(b"k", None, Revision(None)).await, Ok(true));
        assert_eq!(store.change_if(b"k", Some(&entry("1")), Revision(Some(7))).await, Ok(false));
        assert_eq!(store.change_if(b"k", Some(&entry("1")), Revision(None)).await, Ok(true));
        assert_eq!(beside.change_if(b"k", Some(&entry("2")), Revision(None)).await, Ok(false));
        let (found, first) = beside.read(b"k").await.expect("an answer");
        assert_eq!(found, Some(entry("1")));
        assert_eq!(beside.change_if(b"k", Some(&entry("2")), first).await, Ok(true));
        assert_eq!(store.change_if(b"k", Some(&entry("3")), first).await, Ok(false));
        // The same value again is another revision, also after a delete.
        assert_eq!(store.apply(vec![("k".into(), None)]).await, Ok(()));
        let document = StoredValue { kind: ValueKind::Document, expiry: Some(4_102_444_800_123), ..entry("1") };
        assert_eq!(store.apply(vec![("k".into(), Some(document.clone()))]).await, Ok(()));
        let (found, second) = store.read(b"k").await.expect("an answer");
        assert_eq!(found, Some(document));
        assert_ne!(first, second);
        assert_eq!(store.change_if(b"k", None, first).await, Ok(false));
        assert_eq!(store.change_if(b"k", None, second).await, Ok(true));
        assert_eq!(store.read(b"k").await, Ok((None, Revision(None))));
    });
}
