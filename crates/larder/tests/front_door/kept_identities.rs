//! A connection that stays open while its user changes: each request on it counts by what the user is
//! now, whichever door it came through.
use super::{
    attacks_http2::{END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, field, frame, get},
    common::{RedisServer, Reply, wait_until},
    larder::{Larder, connect},
};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

fn basic(password: &str) -> String {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    format!("Basic {}", BASE64_STANDARD.encode(format!("app:{password}")))
}

/// Where requests come in, and on which path.
#[derive(Debug, Clone, Copy)]
enum Door {
    FastPath,
    GeneralPath,
    Admin,
    Http2,
}

/// A connection that stays open.
struct Kept {
    door: Door,
    stream: BufReader<TcpStream>,
    streams: u32,
}
impl Kept {
    fn open(larder: &Larder, door: Door) -> Kept {
        let port = if matches!(door, Door::Admin) { larder.admin } else { larder.http };
        let mut stream = connect(port);
        if matches!(door, Door::Http2) {
            stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
        }
        Kept { door, stream: BufReader::new(stream), streams: 0 }
    }
    /// Whether a read of `k` is served with this password; any other answer is a refusal.
    fn is_served(&mut self, password: &str) -> bool {
        let line = format!("host: x\r\nauthorization: {}\r\n", basic(password));
        let request = match self.door {
            Door::FastPath | Door::Admin => format!("GET /v1/kv/k HTTP/1.1\r\n{line}\r\n"),
            Door::GeneralPath => {
                let body = r#"{"keys":["k"]}"#;
                format!("POST /v1/mget HTTP/1.1\r\n{line}content-length: {}\r\n\r\n{body}", body.len())
            }
            Door::Http2 => return self.is_served_by_http2(password),
        };
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.stream.read_line(&mut head).unwrap(), 0, "{:?}: the end after {head:?}", self.door);
        }
        let head = head.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).expect("a length").lines().next().unwrap();
        self.stream.read_exact(&mut vec![0; length.parse().unwrap()]).unwrap();
        let status = head.split(' ').nth(1).unwrap();
        assert!(["200", "401", "403"].contains(&status), "{:?}: {head}", self.door);
        status == "200"
    }
    fn is_served_by_http2(&mut self, password: &str) -> bool {
        let stream = 2 * self.streams + 1;
        self.streams += 1;
        let fields = [get("/v1/kv/k"), field("authorization", &basic(password))].concat();
        self.stream.get_mut().write_all(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &fields)).unwrap();
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).unwrap();
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.stream.read_exact(&mut payload).unwrap();
            if head[3] == HEADERS && head[5..] == stream.to_be_bytes() {
                // `:status: 200` of the static table (RFC 7541).
                return payload[0] == 0x88;
            }
        }
    }
}

const DOORS: [Door; 4] = [Door::FastPath, Door::GeneralPath, Door::Admin, Door::Http2];

/// What happens to the user `app`, and which of the passwords `a` and `new` count afterwards.
const CHANGES: [(&str, [bool; 2]); 7] = [
    ("ACL SETUSER app resetpass >new", [false, true]),
    ("ACL SETUSER app off", [false, false]),
    ("ACL SETUSER app on", [false, true]),
    ("ACL SETUSER app -@read", [false, false]),
    ("ACL SETUSER app +@read >a", [true, true]),
    ("ACL DELUSER app", [false, false]),
    ("ACL SETUSER app on >a ~* +@all", [true, false]),
];

fn split(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn each_request_of_a_kept_connection_counts_by_what_its_user_is_now() {
    const LINE: &str = "app on >a ~* &* +@all";
    for door in DOORS {
        for (kind, is_late) in [("own", false), ("of Redis, by Larder", false), ("of Redis", true)] {
            let redis = RedisServer::start();
            let folder = tempfile::tempdir().unwrap();
            let users = folder.path().join("users.acl");
            fs::write(&users, format!("user {LINE}\nuser root on >r ~* &* +@all\nuser default off\n")).unwrap();
            for line in [LINE, "root on >r allkeys allchannels +@all"] {
                assert_eq!(redis.command(&split(&format!("ACL SETUSER {line}"))), Reply::ok());
            }
            let url = format!("redis://root:r@127.0.0.1:{}", redis.port());
            let own = format!("--users-file={}", users.display());
            let args = match kind {
                "own" => vec![own.as_str()],
                _ => vec!["--source", &url, "--auth", "passthrough", "--forward-admin"],
            };
            let larder = Larder::start(&args);
            let mut root = if is_late { redis.client() } else { larder.client() };
            assert_eq!(root.command(&["AUTH", "root", "r"]), Reply::ok());
            assert_eq!(root.command(&["SET", "k", "v"]), Reply::ok());
            let mut kept = Kept::open(&larder, door);
            (0..3).for_each(|_| assert!(kept.is_served("a"), "{door:?}, {kind}"));
            for (change, passwords) in CHANGES {
                assert!(!matches!(root.command(&split(change)), Reply::Error(_)), "{change}");
                for (password, counts) in ["a", "new"].into_iter().zip(passwords) {
                    // At the Redis itself, it is learned within the age of a copy (`auth`).
                    if is_late {
                        wait_until(&format!("{door:?}, {kind}, {change}: {password}"), || {
                            kept.is_served(password) == counts
                        });
                    }
                    let tries = if is_late { 1 } else { 2 };
                    (0..tries).for_each(|_| {
                        assert_eq!(kept.is_served(password), counts, "{door:?}, {kind}, {change}: {password}");
                    });
                }
            }
        }
    }
}
