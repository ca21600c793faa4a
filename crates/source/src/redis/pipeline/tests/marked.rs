//! Replies that break the protocol, between those of other clients.
use super::{Sent, sent};
use crate::{
    SourceError,
    raw_replies::RawReplies,
    redis::queued_request::{QueuedRelay, QueuedRequest, RelayResult},
};
use bytes::Bytes;
use larder_proto::{output::Output, resp::Scanner};
use proptest::prelude::*;
use std::time::Duration;
use tokio::{
    sync::oneshot::{Receiver, channel},
    time::Instant,
};

const LIMIT: Duration = Duration::from_secs(10);

/// Queues commands with this number of replies.
fn queue(sent: &mut Sent, count: usize, may_break: bool) -> Receiver<RelayResult> {
    let (sender, answer) = channel();
    sent.queue.push_back(QueuedRequest::Relay(QueuedRelay {
        commands: Bytes::from_static(b"*1\r\n$1\r\nC\r\n"),
        count,
        deadline: Instant::now() + LIMIT,
        limit: LIMIT,
        may_break,
        busy: None,
        running: None,
        answer: Some(sender),
    }));
    answer
}
/// Sends what is queued. Returns the replies that mark the ends.
fn send(sent: &mut Sent) -> Vec<Vec<u8>> {
    let mut out = Output::default();
    sent.pipeline.send(&mut sent.queue, &mut out);
    let out = String::from_utf8(out.to_vec()).expect("text");
    out.split("$4\r\nECHO\r\n").skip(1).map(|marker| marker.as_bytes()[..39].to_vec()).collect()
}
fn replies(answer: &mut Receiver<RelayResult>) -> RawReplies {
    answer.try_recv().expect("answered").expect("not lost")
}

/// Whether these bytes are this number of replies and nothing else.
fn fits(bytes: &[u8], count: usize) -> bool {
    let (mut at, mut found) = (0, 0);
    while at < bytes.len() {
        match Scanner::new(usize::MAX).scan(&bytes[at..]) {
            Ok(Some(len)) if bytes[at] != b'>' => at += len,
            _ => return false,
        }
        found += 1;
    }
    found == count
}

proptest! {
    #[test]
    fn whatever_a_reply_is_the_next_one_is_right(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec![
                    "-ERR x\r\n", "-ERR x\n", "+a\rb\r\n", "$6\r\nFORGED\r\n", "$100\r\n", "$99999999\r\n", "*2\r\n",
                    "*-1\r\n", "+QUEUED\r\n", ":1\r\n", "_\r\n", ">1\r\n+x\r\n", "\"\r\n", "$32\r\n", "$32\r\n0", "\r",
                ]).prop_map(|text| text.as_bytes().to_vec()),
                prop::collection::vec(any::<u8>(), 0..20),
            ],
            0..8,
        ),
        count in 1..4usize,
        sizes in prop::collection::vec(1..60usize, 1..6),
    ) {
        let mut sent = sent(0);
        let (mut before, mut broken) = (queue(&mut sent, 1, false), queue(&mut sent, count, true));
        let (mut script, mut after) = (queue(&mut sent, 2, true), queue(&mut sent, 1, false));
        let markers = send(&mut sent);
        let reply = parts.concat();
        let all = [&b"$1\r\na\r\n"[..], &reply, &markers[0], b"*1\r\n:1\r\n+s\r\n", &markers[1], b"$1\r\nb\r\n"].concat();
        prop_assert_eq!(sent.feed(&all, &sizes), Ok(()));
        prop_assert!(!sent.pipeline.has_in_flight());
        prop_assert_eq!(replies(&mut before).last(), &b"$1\r\na\r\n"[..]);
        let got = replies(&mut broken);
        prop_assert_eq!(got.is_broken(), !fits(&reply, count), "{:?}", got);
        if !got.is_broken() {
            prop_assert_eq!(got.bytes(), &reply[..]);
        }
        prop_assert!(got.iter().len() <= count && got.iter().all(|reply| reply.ends_with(b"\r\n")));
        let script = replies(&mut script);
        prop_assert!(!script.is_broken() && script.may_be_forged());
        prop_assert_eq!((&script[0], &script[1]), (&b"*1\r\n:1\r\n"[..], &b"+s\r\n"[..]));
        prop_assert_eq!(replies(&mut after).last(), &b"$1\r\nb\r\n"[..]);
    }
}

#[test]
fn the_first_line_of_a_broken_reply_is_the_error() {
    const NO_LINE: &str = "-ERR the source's reply breaks the protocol\r\n";
    for (reply, expected) in [
        ("-ERR x\r\n$6\r\nFORGED\"\r\n", "-ERR x\r\n"),
        ("-ERR x\ny\r\n", "-ERR x\r\n"),
        ("-ERR x\ry\r\n", "-ERR x\r\n"),
        ("+a\ny\r\n", NO_LINE),
        ("*2\r\n:1\r\n", NO_LINE),
        ("$100\r\nx", NO_LINE),
        ("", ""),
    ] {
        let mut sent = sent(0);
        let mut answer = queue(&mut sent, 1, true);
        let marker = send(&mut sent).concat();
        assert_eq!(sent.feed(&[reply.as_bytes(), &marker].concat(), &[3]), Ok(()));
        let answer = replies(&mut answer);
        assert!(answer.is_broken());
        assert_eq!(answer.bytes(), expected, "{reply:?}");
    }
}

#[test]
fn no_two_markers_are_alike() {
    let mut sent = sent(0);
    for _ in 0..100 {
        drop(queue(&mut sent, 1, true));
    }
    let mut markers = send(&mut sent);
    markers.sort();
    markers.dedup();
    assert_eq!(markers.len(), 100);
}

/// A busy server refuses the marker and all commands behind it. It answers an unknown command, which shows
/// that all were refused; their clients get the refusal, and the connection goes on.
#[test]
fn a_busy_server_costs_nobody_a_reply() {
    const BUSY: &str = "-BUSY Redis is busy\r\n";
    for sizes in [&[usize::MAX][..], &[1], &[7, 30]] {
        // What comes behind the first reply and the marker's refusal, and whether it is clear.
        for (behind, is_clear) in [
            (BUSY.repeat(3), true),
            (BUSY.repeat(2), false),
            (BUSY.repeat(4), false),
            (format!("{BUSY}+OK\r\n{BUSY}"), false),
            (format!("{BUSY}${}\r\n{BUSY}", BUSY.len() - 2), false),
            (String::new(), false),
        ] {
            let mut sent = sent(0);
            let (mut script, mut other) = (queue(&mut sent, 1, true), queue(&mut sent, 1, true));
            let mut plain = queue(&mut sent, 1, false);
            send(&mut sent);
            assert_eq!(sent.feed(BUSY.repeat(2).as_bytes(), sizes), Ok(()));
            let mut out = Output::default();
            sent.pipeline.send(&mut sent.queue, &mut out);
            let probe = String::from_utf8(out.to_vec()).expect("text");
            let name = probe.strip_prefix("*1\r\n$32\r\n").expect("one unknown command").trim_end().to_owned();
            let mut again = Output::default();
            sent.pipeline.send(&mut sent.queue, &mut again);
            assert!(again.is_empty(), "it is sent once");
            let answer = format!("{behind}-ERR unknown command '{name}', with args beginning with: \r\n");
            assert_eq!(sent.feed(answer.as_bytes(), sizes), Ok(()), "{behind:?}");
            if is_clear {
                for answer in [&mut script, &mut other, &mut plain] {
                    let replies = replies(answer);
                    assert_eq!((replies.bytes().as_ref(), replies.is_broken()), (BUSY.as_bytes(), false));
                }
                assert!(!sent.pipeline.has_in_flight());
                let mut next = queue(&mut sent, 1, false);
                send(&mut sent);
                assert_eq!(sent.feed(b"+PONG\r\n", sizes), Ok(()));
                assert_eq!(replies(&mut next).bytes().as_ref(), b"+PONG\r\n", "the connection goes on");
            } else {
                assert!(sent.pipeline.deadline() <= Some(Instant::now()), "{behind:?}: the connection ends");
                assert!(
                    other.try_recv().is_err() && plain.try_recv().is_err(),
                    "{behind:?}: nobody gets a wrong reply"
                );
            }
        }
    }
}

/// It looks like a busy server, and the marker comes after all: the reply was broken.
#[test]
fn a_marker_that_comes_late_was_not_refused() {
    let mut sent = sent(0);
    let (mut script, mut other) = (queue(&mut sent, 1, true), queue(&mut sent, 1, false));
    let marker = send(&mut sent).concat();
    assert_eq!(sent.feed(b"-BUSY x\r\n-BUSY x\r\n", &[usize::MAX]), Ok(()));
    sent.pipeline.send(&mut sent.queue, &mut Output::default());
    let all = [b"-BUSY x\r\n", &marker[..], b"+b\r\n-ERR unknown command\r\n"].concat();
    assert_eq!(sent.feed(&all, &[usize::MAX]), Ok(()));
    assert!(replies(&mut script).is_broken());
    assert_eq!(replies(&mut other).bytes().as_ref(), b"+b\r\n");
    assert!(!sent.pipeline.has_in_flight());
}

/// The server is busy with a script, say: no marker comes. An error in its place may also be a part of
/// a broken reply, so the connection cannot go on, but the reply is right.
#[test]
fn a_refused_marker_ends_the_connection_and_not_the_reply() {
    let mut sent = sent(0);
    let (mut script, mut other) = (queue(&mut sent, 1, true), queue(&mut sent, 1, false));
    send(&mut sent);
    let deadline = sent.pipeline.deadline();
    assert_eq!(sent.feed(b"-BUSY x\r\n", &[usize::MAX]), Ok(()));
    assert!(sent.pipeline.deadline() >= deadline, "the marker may follow");
    assert_eq!(sent.feed(b"-BUSY x\r\n", &[usize::MAX]), Ok(()));
    assert!(sent.pipeline.deadline() < deadline, "sooner than the script's own");
    assert_eq!(sent.feed(b"-BUSY x\r\n", &[usize::MAX]), Ok(()));
    assert!(script.try_recv().is_err() && other.try_recv().is_err(), "undecided");
    drop(queue(&mut sent, 1, false));
    assert_eq!(send(&mut sent).len() + sent.queue.len(), 1, "nothing more is sent");
    let Sent { pipeline, mut queue, .. } = sent;
    pipeline.lost(&"gone".into(), Instant::now(), &mut queue);
    let answer = replies(&mut script);
    assert_eq!((answer.bytes().as_ref(), answer.is_broken()), (&b"-BUSY x\r\n"[..], false));
    assert!(matches!(other.try_recv(), Ok(Err(SourceError::Lost(_)))));
}
