//! The start: ready line, ports, what stops it.
use super::larder::{self, Larder};
use std::{io::Read, net::TcpListener};

#[test]
fn the_ready_line_names_addresses_that_answer() {
    // `Larder::start` parses the line, port 0 resolved.
    let larder = Larder::start(&["--threads", "3"]);
    assert_eq!(larder.client().command(&["PING"]), super::common::Reply::Simple("PONG".into()));
    assert_eq!(larder.http("GET /healthz HTTP/1.0\r\n\r\n").0, 200);
    assert_eq!(larder.admin("GET /healthz HTTP/1.0\r\n\r\n").0, 200);
}

#[test]
fn a_taken_port_stops_the_start_and_is_named_with_its_setting() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for setting in ["http", "redis", "admin"] {
        let mut command = larder::command();
        for name in ["http", "redis", "admin"] {
            let address = if name == setting { address.to_string() } else { "127.0.0.1:0".into() };
            command.arg(format!("--{name}={address}"));
        }
        let mut child = command.spawn().unwrap();
        let status = child.wait().unwrap();
        let (mut out, mut error) = (String::new(), String::new());
        child.stdout.unwrap().read_to_string(&mut out).unwrap();
        child.stderr.unwrap().read_to_string(&mut error).unwrap();
        assert_eq!((status.code(), out.as_str()), (Some(1), ""), "{error}");
        assert!(error.contains(&format!("cannot listen on {address} (--{setting}): ")), "{error}");
        assert!(
            error.contains(&format!("choose another address with --{setting} ADDR, or --{setting} off")),
            "{error}"
        );
    }
}

#[test]
fn a_source_that_is_away_does_not_stop_the_start() {
    let port = super::common::Port::free();
    let larder = Larder::start(&["--source", &format!("redis://127.0.0.1:{}", port.number)]);
    let reply = larder.client().command(&["GET", "key"]);
    assert!(reply.error().starts_with("ERR source unavailable: "), "{reply:?}");
}
