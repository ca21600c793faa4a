//! `larder serve DATA`: an edited data file, and what its lines are.
use super::{Larder, Place, error, get, reload};
use crate::common::wait_until;
use rustix::process::Signal;
use std::fs;

const SWAPS: &str = "larder_table_swaps_total{group=\"default\"}";
const REFUSED: &str = "larder_table_refused_total{group=\"default\"}";

fn value(larder: &Larder, key: &str) -> (u16, String) {
    get(larder, &format!("/?key={key}"))
}
fn found(value: &str) -> (u16, String) {
    (200, value.to_owned())
}

#[test]
fn a_reload_builds_the_table_of_an_edited_file() {
    let place = Place::new();
    let data = place.write("x.csv", "key,value\na,one\nb,\n");
    let larder = Larder::start(&[&data]);
    assert_eq!((value(&larder, "a"), value(&larder, "b")), (found("one"), found("")));
    // Written in place, with the size that it had.
    place.write("x.csv", "key,value\na,two\nb,\n");
    assert_eq!(reload(&larder), (200, r#"{"entries":2,"changed":null}"#.to_owned()));
    assert_eq!(value(&larder, "a"), found("two"));
    // Moved into place.
    place.write("new", "key,value\na,three\nc,\"4\n");
    fs::rename(place.path("new"), place.path("x.csv")).unwrap();
    assert_eq!(reload(&larder).0, 200);
    assert_eq!((value(&larder, "a"), value(&larder, "b").0, value(&larder, "c").0), (found("three"), 404, 404));
    // One that no table can be built from: the old one stays, at this reload and at the next.
    place.write("x.csv", "name,value\na,four\n");
    for refused in 1..3 {
        let (status, said) = reload(&larder);
        assert!(status == 422 && said.contains("x.csv: there is no column `key`"), "{status} {said}");
        assert_eq!((value(&larder, "a"), larder.metric(REFUSED)), (found("three"), f64::from(refused)));
    }
    fs::remove_file(place.path("x.csv")).unwrap();
    let (status, said) = reload(&larder);
    assert!(status == 422 && said.contains("x.csv: No such file"), "{status} {said}");
    place.write("x.csv", "key,value\na,five\n");
    assert_eq!((reload(&larder).0, value(&larder, "a")), (200, found("five")));
}

#[test]
fn clients_that_track_are_told_what_an_edit_changed() {
    let place = Place::new();
    let data = place.write("x.data", "a one\nb two\n");
    let larder = Larder::start(&[&data]);
    let mut tracks = super::connect(larder.redis);
    std::io::Write::write_all(&mut tracks, b"HELLO 3\r\nCLIENT TRACKING ON\r\nMGET a b\r\nPING tracked\r\n").unwrap();
    super::skip_until(&mut tracks, b"$7\r\ntracked\r\n");
    place.write("x.data", "a one\nb other\n");
    assert_eq!(reload(&larder), (200, r#"{"entries":2,"changed":1}"#.to_owned()));
    super::expect(&mut tracks, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nb\r\n");
}

#[test]
fn a_reload_of_the_configuration_looks_at_the_file() {
    let place = Place::new();
    let data = place.write("x.data", "a one\n");
    let larder = Larder::start(&[&data]);
    place.write("x.data", "a two\n");
    larder.signal(Signal::HUP);
    wait_until("the edit", || value(&larder, "a") == found("two"));
}

#[test]
fn a_watched_file_is_noticed_by_itself() {
    let place = Place::new();
    let data = place.write("x.data", "a one\n");
    let larder = Larder::start(&[&data, "--watch"]);
    assert_eq!(value(&larder, "a"), found("one"));
    place.write("x.data", "a two\n");
    wait_until("the edit", || value(&larder, "a") == found("two"));
    // A bad one is tried once, and a missing one not at all.
    let (swaps, refused) = (larder.metric(SWAPS), larder.metric(REFUSED));
    fs::write(place.path("x.data"), b"\x1f\x8b compressed").unwrap();
    wait_until("the refusal", || larder.metric(REFUSED) > refused);
    fs::remove_file(place.path("x.data")).unwrap();
    place.write("x.data", "a three\n");
    wait_until("the next edit", || value(&larder, "a") == found("three"));
    assert_eq!((larder.metric(SWAPS), larder.metric(REFUSED)), (swaps + 1.0, refused + 1.0));
    // It needs something to watch.
    let (code, said) = error(&super::command().arg("--watch").output().unwrap());
    assert!(code == 2 && said.contains("DATA"), "{code} {said}");
}

#[test]
fn without_watch_an_edit_waits_for_a_reload() {
    let place = Place::new();
    let data = place.write("x.data", "a one\n");
    let larder = Larder::start(&[&data]);
    place.write("x.data", "a two\n");
    // A table that is moved into place is found, and by then the edit would have been.
    let fresh = place.write("fresh.data", "a moved\n");
    super::done(&super::table(&["build", &fresh, "-o", &place.name("fresh.ltab")]));
    fs::rename(place.path("fresh.ltab"), place.path("x.data.ltab")).unwrap();
    wait_until("the moved table", || value(&larder, "a") == found("moved"));
    assert_eq!((reload(&larder).0, value(&larder, "a")), (200, found("two")));
    // The data has not changed since: a reload leaves a table that was moved into place.
    super::done(&super::table(&["build", &fresh, "-o", &place.name("fresh.ltab")]));
    fs::rename(place.path("fresh.ltab"), place.path("x.data.ltab")).unwrap();
    assert_eq!((reload(&larder).0, value(&larder, "a")), (200, found("moved")));
}

#[test]
fn keys_without_a_value_are_served_as_empty() {
    let place = Place::new();
    let data = place.write("x.data", "alone\nblank \nb two\n");
    let larder = Larder::start(&[&data]);
    assert_eq!((value(&larder, "alone"), value(&larder, "blank")), (found(""), found("")));
    let mut client = larder.client();
    assert_eq!(client.command(&["GET", "alone"]), super::Reply::bulk(""));
    place.write("x.data", "later\n");
    assert_eq!((reload(&larder).0, value(&larder, "later"), value(&larder, "alone").0), (200, found(""), 404));
}
