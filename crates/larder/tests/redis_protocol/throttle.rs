//! Requests per second, over both protocols.
use super::{
    common::Reply,
    larder::{Larder, encode},
};
use std::{
    io::{BufRead, BufReader, Write},
    time::Instant,
};

#[test]
fn redis_commands_over_the_limit_are_refused_one_by_one() {
    let larder = Larder::start(&["--throttle", "10/m"]);
    let mut stream = larder.stream();
    stream.write_all(&encode(&[b"PING"]).repeat(20)).unwrap();
    let mut replies = BufReader::new(stream).lines();
    let replies: Vec<String> = (0..20).map(|_| replies.next().unwrap().unwrap()).collect();
    let (served, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| *reply == "+PONG");
    // A few seconds may pass meanwhile.
    assert!((10..=15).contains(&served.len()), "{replies:?}");
    for reply in refused {
        assert!(reply.starts_with("-ERR throttled: limit of setting throttle reached, retry after "), "{reply}");
    }
    // Another connection of the same address draws on the same budget.
    let mut other = larder.client();
    let replies: Vec<Reply> = (0..10).map(|_| other.command(&["PING"])).collect();
    let refused = |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with("ERR throttled"));
    assert!(replies.iter().any(refused), "{replies:?}");
}

#[test]
fn http_requests_over_the_limit_are_refused_with_a_time_to_come_back() {
    let larder = Larder::start(&["--throttle", "3/m"]);
    let begun = Instant::now();
    let answers: Vec<_> =
        (0..8).map(|_| larder.http("GET /v1/kv/none HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).collect();
    assert_eq!(answers[0].0, 404);
    let refused: Vec<_> = answers.iter().filter(|(status, ..)| *status == 429).collect();
    assert!(refused.len() >= 3, "{answers:?}");
    // Both times run while the test does.
    let passed = begun.elapsed().as_secs() + 1;
    for (_, head, _) in refused {
        let seconds = |before: &str, after: &str| -> u64 {
            let (_, rest) = head.split_once(before).unwrap_or_else(|| panic!("{head}"));
            rest.split_once(after).unwrap().0.parse().unwrap()
        };
        let retry = seconds("\r\nretry-after: ", "\r\n");
        assert!((20_u64.saturating_sub(passed).max(1)..=20).contains(&retry), "{head}");
        assert!(head.contains("\r\nratelimit-policy: \"throttle\";q=3;w=60\r\n"), "{head}");
        let whole = seconds("\r\nratelimit: \"throttle\";r=0;t=", "\r\n");
        assert!((60_u64.saturating_sub(passed).max(40)..=60).contains(&whole), "{head}");
    }
    let (status, _, body) = larder.http("GET /lookup?key=none HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(status, 503);
    assert_eq!(String::from_utf8(body).unwrap(), r#"{"key": "none", "value": null, "status": 503}"#);
}

#[test]
fn the_total_is_one_budget_for_both_protocols_and_admin_has_its_own() {
    let larder = Larder::start(&["--throttle-total", "5/m", "--throttle-admin", "2/m"]);
    let mut client = larder.client();
    let replies: Vec<_> = (0..10).map(|_| client.command(&["PING"])).collect();
    assert!(replies[..5].iter().all(|reply| *reply == Reply::Simple("PONG".into())), "{replies:?}");
    assert!(replies[9].error().contains("throttle-total"), "{replies:?}");
    let (status, ..) = larder.http("GET /v1/kv/none HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(status, 503);
    let stats = || larder.admin("GET /v1/stats HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").0;
    let statuses: Vec<_> = (0..6).map(|_| stats()).collect();
    assert_eq!(statuses[0], 200, "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[test]
fn a_transaction_that_was_cut_into_is_not_carried_out() {
    let larder = Larder::start(&["--throttle", "5/m"]);
    let mut stream = larder.stream();
    let commands: [&[&[u8]]; 7] = [
        &[b"MULTI"],
        &[b"SET", b"a", b"1"],
        &[b"SET", b"b", b"1"],
        &[b"PING"],
        &[b"PING"],
        &[b"SET", b"c", b"1"],
        &[b"EXEC"],
    ];
    let input: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
    stream.write_all(&input).unwrap();
    let mut replies = BufReader::new(stream).lines();
    let replies: Vec<String> = (0..7).map(|_| replies.next().unwrap().unwrap()).collect();
    assert!(replies[5].starts_with("-ERR throttled"), "{replies:?}");
    // Refused itself, or let through later: it ends the transaction, undone, in either case.
    assert!(replies[6].starts_with("-EXECABORT Transaction discarded because of"), "{replies:?}");
}
