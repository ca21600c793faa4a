//! A node of the list that is none: whatever it answers, reads end with the source's value or an error,
//! and memory stays bounded.
use super::{
    common::{PATIENCE, Port, Reply},
    larder::Larder,
    scripted_origin::{ScriptedOrigin, answer},
};
use crate::lies::{HTTP_LIES, liar};
use std::time::Instant;

#[test]
fn a_node_that_lies_costs_neither_memory_nor_right_answers() {
    let origin = ScriptedOrigin::start(|_| answer("200 OK", "", "right"));
    let source = format!("http://127.0.0.1:{}/{{key}}", origin.port);
    let source = source.as_str();
    std::thread::scope(|scope| {
        for (what, lie) in HTTP_LIES {
            scope.spawn(move || {
                let port = liar(lie);
                let this = Port::free();
                let peers = format!("127.0.0.1:{},127.0.0.1:{port}", this.number);
                let own = format!("127.0.0.1:{}", this.number);
                let args = ["--peers", &peers, "--peer-self", &own, "--source", source, "--threads=1"];
                let bounds = ["--max-memory=16MiB", "--max-buffers=16MiB", "--source-timeout=1s"];
                let larder = Larder::with_http_on(this.number, &[&args[..], &bounds].concat());
                let mut right = 0;
                for key in 0..20 {
                    let begun = Instant::now();
                    let head = format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
                    let (status, _, body) = larder.http(&head);
                    assert!(begun.elapsed() < PATIENCE, "{what}");
                    let is_right = status == 200 && body == b"right";
                    assert!(is_right || matches!(status, 502 | 503), "{what}: {status}");
                    right += usize::from(status == 200);
                }
                assert!(right > 0, "{what}: the keys of this node are read");
                assert_eq!(larder.client().command(&["PING"]), Reply::Simple("PONG".into()));
                assert!(larder.resident() < 160 << 20, "{what}: {}", larder.resident());
            });
        }
    });
}
