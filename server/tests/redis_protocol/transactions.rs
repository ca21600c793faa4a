//! Transactions as other clients see them.
use super::{common::Reply, larder::Larder};
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::scope,
};

const TRANSACTIONS: usize = 2000;

/// Sends transactions that leave an even number behind each; meanwhile another client, of another
/// thread, looks for odd ones.
fn nothing_is_seen_halfway(steps: &[&[&str]]) {
    let larder = Larder::start(&["--threads", "2"]);
    let (mut writer, is_over) = (larder.client(), AtomicBool::new(false));
    assert_eq!(writer.command(&["SET", "k", "0"]), Reply::ok());
    scope(|scope| {
        scope.spawn(|| {
            let mut reader = larder.client();
            while !is_over.load(Relaxed) {
                let number: u64 = match reader.command(&["GET", "k"]) {
                    Reply::Bulk(Some(text)) => String::from_utf8(text).unwrap().parse().unwrap(),
                    other => panic!("{other:?}"),
                };
                assert_eq!(number % 2, 0, "seen within a transaction");
            }
        });
        for _ in 0..TRANSACTIONS {
            writer.send(&["MULTI"]).unwrap();
            writer.send(&["INCR", "k"]).unwrap();
            steps.iter().for_each(|step| writer.send(step).unwrap());
            writer.send(&["INCR", "k"]).unwrap();
            writer.send(&["EXEC"]).unwrap();
            (0..steps.len() + 4).for_each(|_| drop(writer.read().unwrap()));
        }
        is_over.store(true, Relaxed);
    });
    assert_eq!(writer.command(&["GET", "k"]), Reply::bulk((2 * TRANSACTIONS).to_string()));
}

#[test]
fn tags_are_part_of_a_transaction() {
    nothing_is_seen_halfway(&[&["LARDER.TAG", "k", "t"], &["LARDER.CLEARTAG", "other"]]);
}
