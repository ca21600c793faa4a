//! DUMP and RESTORE beside a real redis-server: what one dumps, the other restores.
use super::support::{Redis, Server, runtime, words};
use crate::tests::memory_store::MemoryStore;
use std::rc::Rc;

#[test]
fn what_one_server_dumps_the_other_restores() {
    let redis = Redis::start();
    let mut theirs = redis.connect();
    for server in [Server::new(&[]), Server::with_source(&[], Rc::new(MemoryStore::default()))] {
        let (runtime, mut ours) = (runtime(), server.client());
        let mut values: Vec<Vec<u8>> =
            ["", "a", "0", "-1", "127", "128", "-32769", "2147483648", "9223372036854775807", "007", "1.5"]
                .map(Into::into)
                .into();
        values.extend([12, 21, 63, 64, 16_383, 16_384, 100_000].map(|len| b"ab".repeat(len)));
        values.extend(
            [64, 70_000].map(|len: u32| (0..len).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()),
        );
        for value in values {
            let mut ask = |args: &[&[u8]]| {
                let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
                (theirs.call(&args), runtime.block_on(ours.wait(&args)))
            };
            let (stored, got) = (ask(&[b"SET", b"k", &value]), ask(&[b"GET", b"k"]));
            assert!(stored.0 == stored.1 && got.0 == got.1, "{}", value.escape_ascii());
            let (a, b) = ask(&[b"DUMP", b"k"]);
            let (a, b) = (bulk(&a), bulk(&b));
            let exchanged = [
                theirs.call(&[b"RESTORE".to_vec(), b"k".to_vec(), b"0".to_vec(), b.to_vec(), b"REPLACE".to_vec()]),
                runtime.block_on(ours.wait(&[
                    b"RESTORE".to_vec(),
                    b"k".to_vec(),
                    b"100000".to_vec(),
                    a.to_vec(),
                    b"replace".to_vec(),
                ])),
            ];
            assert_eq!(exchanged, [b"+OK\r\n"; 2], "{}", value.escape_ascii());
            assert_eq!(theirs.call(&words("GET k")), got.0);
            assert_eq!(runtime.block_on(ours.wait(&words("GET k"))), got.0);
            assert!(runtime.block_on(ours.wait(&words("TTL k"))).starts_with(b":"));
            assert_ne!(runtime.block_on(ours.wait(&words("TTL k"))), b":-1\r\n");
        }
    }
}

/// The bytes of a bulk string.
fn bulk(reply: &[u8]) -> &[u8] {
    let head = reply.iter().position(|byte| *byte == b'\n').expect("a length") + 1;
    &reply[head..reply.len() - 2]
}

#[test]
fn what_cannot_be_restored_is_said() {
    let redis = Redis::start();
    let mut theirs = redis.connect();
    theirs.say("HSET h f v");
    let hash = theirs.call(&words("DUMP h"));
    let server = Server::new(&["--max-value", "1000"]);
    let mut ours = server.client();
    let mut restore = |key: &str, ttl: &str, dump: &[u8]| {
        let args = [b"RESTORE", key.as_bytes(), ttl.as_bytes(), dump].map(<[u8]>::to_vec);
        String::from_utf8_lossy(&ours.call(&args)).trim_end().to_owned()
    };
    let dump = larder_store::rdb::dump;
    assert_eq!(restore("k", "0", &dump(&[b'x'; 1000])), "+OK");
    assert_eq!(restore("k", "0", &dump(b"x")), "-BUSYKEY Target key name already exists.");
    for (ttl, dump, error) in [
        ("0", dump(&[b'x'; 1001]), "string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("0", bulk(&hash).to_vec(), "Bad data format: Larder without a source restores strings alone"),
        ("0", b"x".to_vec(), "DUMP payload version or checksum are wrong"),
        ("-1", dump(b"x"), "Invalid TTL value, must be >= 0"),
        ("x", dump(b"x"), "value is not an integer or out of range"),
    ] {
        assert_eq!(restore("other", ttl, &dump), format!("-ERR {error}"));
    }
    assert_eq!(restore("past", "1", &dump(b"x")), "+OK");

    // 100 MiB of zeros, compressed to 1 MiB: more than the tier could hold.
    theirs.say("SETRANGE big 104857600 x");
    let big = theirs.call(&words("DUMP big"));
    assert!(big.len() < 4 << 20, "{}", big.len());
    let server = Server::new(&[]);
    let refused = server.client().call(&[b"RESTORE", &b"big"[..], b"0", bulk(&big)].map(<[u8]>::to_vec));
    let said = "-OOM the value needs more than max-memory (67108864) allows\r\n";
    assert_eq!(String::from_utf8_lossy(&refused), said);
}
