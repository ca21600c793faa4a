//! Clients that ask for maintenance notifications are told to move when the process drains, and
//! have the time that they are told.
use super::{
    common::wait_until,
    larder::{Larder, expect, expect_end, send, skip_until},
};
use rustix::process::Signal;
use std::{io::Read, net::TcpStream, time::Duration};

/// Connected in RESP3, and asks to be told.
fn asks(larder: &Larder, how: &str) -> TcpStream {
    let mut stream = larder.stream();
    send(&mut stream, &["HELLO 3", &format!("CLIENT MAINT_NOTIFICATIONS {how}"), "PING asked"]);
    skip_until(&mut stream, b"+OK\r\n$5\r\nasked\r\n");
    stream
}
/// Reads `MOVING` to where the address stands: the number and the seconds.
fn told(stream: &mut TcpStream) -> (u64, u64) {
    expect(stream, b">4\r\n$6\r\nMOVING\r\n:");
    let mut number = || {
        let mut text = String::new();
        let mut byte = [0];
        while !text.ends_with("\r\n") {
            stream.read_exact(&mut byte).unwrap();
            text.push(byte[0].into());
        }
        text.trim_end().trim_start_matches(':').parse().unwrap()
    };
    (number(), number())
}

#[test]
fn who_asked_is_told_once_and_served_until_it_moves() {
    let mut larder =
        Larder::start(&["--threads", "2", "--grace", "50500ms", "--moving-endpoint", "elsewhere.example:6380"]);
    let with_address = ["ON", "on moving-endpoint-type internal-ip", "ON moving-endpoint-type external-fqdn"];
    let mut told_where: Vec<TcpStream> = with_address.iter().map(|how| asks(&larder, how)).collect();
    let mut told_when = asks(&larder, "ON MOVING-ENDPOINT-TYPE none");
    // Not these: one changed its mind, one cannot read a push, one never asked, one is as new.
    let mut untold = [asks(&larder, "ON"), asks(&larder, "ON"), larder.stream(), asks(&larder, "ON")];
    for (stream, line) in untold.iter_mut().zip(["CLIENT MAINT_NOTIFICATIONS OFF", "HELLO 2", "PING", "RESET"]) {
        send(stream, &[line, "PING ready"]);
        skip_until(stream, b"$5\r\nready\r\n");
    }
    larder.signal(Signal::TERM);
    let mut numbers = Vec::new();
    for stream in &mut told_where {
        let (number, seconds) = told(stream);
        assert!((30..=50).contains(&seconds), "{seconds}");
        numbers.push(number);
        expect(stream, b"$22\r\nelsewhere.example:6380\r\n");
    }
    numbers.push(told(&mut told_when).0);
    expect(&mut told_when, b"_\r\n");
    assert!(numbers.iter().all(|number| *number == numbers[0]), "one event: {numbers:?}");
    untold.iter_mut().for_each(expect_end);
    // Still served, told no more than once, and no new client.
    wait_until("the listener to close", || TcpStream::connect(("127.0.0.1", larder.redis)).is_err());
    for stream in told_where.iter_mut().chain([&mut told_when]) {
        send(stream, &["SET k v", "GET k"]);
        expect(stream, b"+OK\r\n$1\r\nv\r\n");
    }
    drop((told_where, told_when));
    let (status, took) = larder.wait();
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(30), "all have moved: {took:?}");
}

#[test]
fn who_does_not_move_is_closed_when_the_time_is_over() {
    let mut larder = Larder::start(&["--grace", "1950ms"]);
    let mut stays = asks(&larder, "ON moving-endpoint-type none");
    // Without an address to tell, who wants one is not told.
    let mut untold = asks(&larder, "ON moving-endpoint-type internal-ip");
    larder.signal(Signal::TERM);
    expect_end(&mut untold);
    assert_eq!(told(&mut stays).1, 1);
    expect(&mut stays, b"_\r\n");
    expect_end(&mut stays);
    let (status, took) = larder.wait();
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_millis(1950), "{took:?}");
}

#[test]
fn the_news_stands_between_replies() {
    let mut larder = Larder::start(&["--grace", "1m", "--threads", "1"]);
    let mut stream = asks(&larder, "ON moving-endpoint-type none");
    let value = "v".repeat(3000);
    send(&mut stream, &[&format!("SET k {value}")]);
    expect(&mut stream, b"+OK\r\n");
    let many = vec!["GET k"; 20_000].join("\r\n") + "\r\n";
    let mut writes = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut writes, many.as_bytes()));
    larder.signal(Signal::TERM);
    let reply = format!("$3000\r\n{value}\r\n").into_bytes();
    let (mut replies, mut news) = (0, 0);
    while replies < 20_000 {
        let mut first = [0];
        stream.peek(&mut first).unwrap();
        if first == *b">" {
            told(&mut stream);
            expect(&mut stream, b"_\r\n");
            news += 1;
        } else {
            expect(&mut stream, &reply);
            replies += 1;
        }
    }
    writer.join().unwrap().unwrap();
    if news == 0 {
        told(&mut stream);
    }
    drop(stream);
    assert!(larder.wait().0.success());
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    let larder = Larder::start(&[]);
    let mut stream = larder.stream();
    for (how, error) in [
        ("MAYBE", "-ERR syntax error\r\n"),
        ("ON moving-endpoint-type", "-ERR syntax error\r\n"),
        ("ON moving-endpoint-kind none", "-ERR syntax error\r\n"),
        ("ON moving-endpoint-type nowhere", "-ERR Invalid moving-endpoint-type\r\n"),
        ("OFF moving-endpoint-type none", "+OK\r\n"),
    ] {
        send(&mut stream, &[&format!("CLIENT MAINT_NOTIFICATIONS {how}")]);
        expect(&mut stream, error.as_bytes());
    }
}
