//! Against the real programs: they are part of what `make test` needs, as redis-server is for the server's own tests.
use super::*;
use crate::wire::{Http, Reply, Resp};

const TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn redis_starts_stores_and_ends() {
    let mut server = redis(None, None).expect("redis-server starts");
    let mut client = Resp::connect(server.address, TIMEOUT).expect("connect");
    client
        .load(1000, |number, key, value| {
            *key = format!("key:{number}").into_bytes();
            *value = key.clone();
        })
        .expect("all are stored");
    assert_eq!(
        client.call(&[b"DBSIZE"]).expect("answers"),
        Reply::Integer(1000)
    );
    assert_eq!(
        client.call(&[b"GET", b"key:999"]).expect("answers"),
        Reply::Bulk(Some(b"key:999".to_vec()))
    );
    assert!(server.process().resident_bytes().expect("statm") > 1 << 20);
    assert!(server.ended().expect("asked").is_none());
    assert!(server.terminate().expect("ends").success());
}

#[test]
fn a_server_goes_with_its_handle() {
    let server = redis(None, None).expect("redis-server starts");
    let address = server.address;
    drop(server);
    assert!(Resp::connect(address, TIMEOUT).is_err());
    // The port can be used again at once: that is how a killed source comes back.
    let again = redis(None, Some(address)).expect("starts again");
    assert_eq!(again.address, address);
}

#[test]
fn nginx_serves_the_bytes() {
    let server = nginx(None, b"sixty-four").expect("nginx starts");
    let mut client = Http::connect(server.address, TIMEOUT).expect("connect");
    for _ in 0..3 {
        assert_eq!(client.get("/value").expect("answers").body, b"sixty-four");
    }
}

#[test]
fn what_cannot_start_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["-c", "echo the reason >&2; exit 3"].map(str::to_owned);
    let address = free_port().expect("a port");
    let mut server = Server::start(
        "shell",
        folder,
        None,
        Path::new("/bin/sh"),
        &arguments,
        address,
    )
    .expect("the shell starts");
    let error = server.wait_until(|_| None::<()>).expect_err("it ends");
    assert!(error.to_string().contains("the reason"), "{error}");
    let missing = require("no-such-program").expect_err("not there");
    assert!(missing.to_string().contains("no-such-program"));
}
