//! Limits by command, by prefix and by address; what clients are told of them; and the memory that
//! they take.
use super::{
    common::Reply,
    larder::Larder,
    sockets::{exchange, from},
};
use std::io::{Read, Write};

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
}

#[test]
fn commands_have_limits_of_their_own_for_each_address() {
    let larder = Larder::start(&["--throttle-commands=@write=2/s", "--throttle-commands=keys=1/s"]);
    let mut client = larder.client();
    let refused = |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with("ERR throttled: limit of setting throttle-commands (@write=2/s) reached, retry after "));
    let writes: Vec<Reply> = (0..12).map(|at| client.command(&["SET", "k", &at.to_string()])).collect();
    assert!(writes[..2].iter().all(|reply| *reply == Reply::ok()) && writes.iter().any(refused), "{writes:?}");
    assert!((0..20).all(|_| matches!(client.command(&["GET", "k"]), Reply::Bulk(Some(_)))), "reads are free");
    let keys: Vec<Reply> = (0..5).map(|_| client.command(&["KEYS", "*"])).collect();
    assert!(keys[4].error().contains("(keys=1/s)"), "{keys:?}");
    // A write over HTTP is one, too, of the same client; another address has its own budget.
    let put = "PUT /v1/kv/k HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nconnection: close\r\n\r\nv";
    let answers: Vec<String> = (0..8).map(|_| exchange(from(1, larder.http), put.as_bytes())).collect();
    assert!(answers.iter().any(|answer| answer.starts_with("HTTP/1.1 429")), "{answers:?}");
    assert!(exchange(from(2, larder.http), put.as_bytes()).starts_with("HTTP/1.1 204"));
    assert!(larder.http(&get("/v1/kv/k")).0 == 200);
}

#[test]
fn a_user_has_one_budget_from_all_addresses() {
    let larder = Larder::start(&["--throttle-user=5/m"]);
    let mut client = larder.client();
    for user in ["ann", "bob"] {
        let reply = client.command(&["ACL", "SETUSER", user, "on", ">secret", "~*", "+@all"]);
        assert_eq!(reply, Reply::ok());
    }
    let ping = |host: u8, user: &str| {
        let lines = format!("AUTH {user} secret\r\n{}QUIT\r\n", "PING\r\n".repeat(4));
        let mut stream = from(host, larder.redis);
        stream.write_all(lines.as_bytes()).unwrap();
        // A QUIT that is refused ends nothing.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        exchange(stream, b"")
    };
    assert_eq!(ping(2, "ann"), "+OK\r\n+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n+OK\r\n");
    let answer = ping(3, "ann");
    assert!(answer.contains("-ERR throttled: limit of setting throttle-user reached"), "{answer}");
    assert!(!ping(2, "bob").contains("throttled"), "another user");
    assert!((0..20).all(|_| client.command(&["PING"]) == Reply::Simple("PONG".into())), "nobody in particular");
}

#[test]
fn a_user_has_one_budget_on_all_paths_of_http() {
    // Forwarded addresses and limits by address are answered on other paths.
    for more in [&[][..], &["--trusted-proxies=127.0.0.9"], &["--throttle=1000/s"], &["--throttle-headers"]] {
        let args = ["--throttle-user=6/m", "--password=p"];
        let larder = Larder::start(&[&args[..], more].concat());
        let mut client = larder.client();
        assert_eq!(client.command(&["AUTH", "p"]), Reply::ok());
        for user in ["ann", "bob", "cid", "dan", "eve", "fay"] {
            let reply = client.command(&["ACL", "SETUSER", user, "on", &format!(">{user}"), "~*", "+@all"]);
            assert_eq!(reply, Reply::ok());
        }
        client.command(&["SET", "k", "v"]);
        let item = "{\"key\":\"i\",\"value\":1,\"ttl\":60}";
        for (user, line, body) in [
            ("ann", "GET /v1/kv/k", ""),
            ("bob", "PUT /v1/kv/other", "x"),
            ("cid", "GET /lookup?key=k", ""),
            ("dan", "POST /v1/mget", "{\"keys\":[\"k\"]}"),
            ("eve", "POST /cache/v1/item", item),
        ] {
            let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
            let request = |close: &str, shown: &str| {
                format!("{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {shown}\r\n{length}{close}\r\n{body}")
            };
            let refused =
                |answers: &str| answers.matches("HTTP/1.1 429").count() + answers.matches("HTTP/1.1 503").count();
            // In one pipeline and from another address.
            let all = request("", user).repeat(19) + &request("connection: close\r\n", user);
            let answers = exchange(from(2, larder.http), all.as_bytes());
            assert!((10..=14).contains(&refused(&answers)), "{line} {more:?}: {answers}");
            let answers = exchange(from(3, larder.http), all.as_bytes());
            assert!(refused(&answers) >= 15, "{line} {more:?} from another address: {answers}");
            // The user of the password, which has no name.
            let all = request("", "p").repeat(19) + &request("connection: close\r\n", "p");
            let answers = exchange(from(2, larder.http), all.as_bytes());
            assert_eq!(refused(&answers), 0, "{line} {more:?}: {answers}");
        }
        // One budget for both protocols.
        let mut stream = from(2, larder.redis);
        stream.write_all(format!("AUTH fay fay\r\n{}", "PING\r\n".repeat(6)).as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        exchange(stream, b"");
        let get = "GET /v1/kv/k HTTP/1.1\r\nhost: x\r\nauthorization: Bearer fay\r\nconnection: close\r\n\r\n";
        assert!(exchange(from(3, larder.http), get.as_bytes()).starts_with("HTTP/1.1 429"), "{more:?}");
    }
}

#[test]
fn requests_that_show_no_user_count_too() {
    let larder = Larder::start(&["--throttle=5/m", "--password=p"]);
    let answers: Vec<String> = (0..12).map(|_| exchange(from(2, larder.http), get("/v1/kv/k").as_bytes())).collect();
    assert!(answers[..5].iter().all(|answer| answer.starts_with("HTTP/1.1 401")), "{answers:?}");
    assert!(answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 429")).count() >= 5, "{answers:?}");
}

#[test]
fn prefixes_have_limits_for_all_clients_together() {
    let larder = Larder::start(&["--throttle-prefixes=report:=4/s", "--throttle-prefixes=report:open:=100/s"]);
    let mut client = larder.client();
    let replies: Vec<Reply> = (0..20).map(|_| client.command(&["MGET", "a", "report:1"])).collect();
    assert!(replies[..4].iter().all(|reply| matches!(reply, Reply::Array(_))), "{replies:?}");
    assert!(
        replies.iter().any(|reply| matches!(reply, Reply::Error(text) if text.contains("throttle-prefixes (report:)")))
    );
    // From other addresses, and however the key is written.
    for (at, path) in ["/v1/kv/report:1", "/v1/kv/%72eport%3A1", "/lookup?key=report%3a1", "/v0/entity?id=report:2"]
        .iter()
        .enumerate()
    {
        let answers: Vec<String> =
            (0..9).map(|_| exchange(from(10 + at as u8, larder.http), get(path).as_bytes())).collect();
        assert!(answers.iter().any(|answer| answer.starts_with("HTTP/1.1 503")), "{path}: {answers:?}");
    }
    let body = r#"{"keys":["a","report:2","report:3","report:4","report:5","report:6"]}"#;
    let mget = format!(
        "POST /v1/mget HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(larder.http(&mget).0, 503);
    assert_eq!(larder.http(&get("/v1/kv/report:open:1")).0, 404);
    assert_eq!(client.command(&["GET", "other"]), Reply::nil());
}

#[test]
fn clients_are_told_what_is_left_if_the_setting_says_so() {
    let larder = Larder::start(&["--throttle=10/s", "--throttle-headers", "--throttle-total=1000/s"]);
    larder.client().command(&["SET", "k", "v"]);
    let (status, head, _) = larder.http(&get("/v1/kv/k"));
    assert_eq!(status, 200);
    assert!(head.contains("\r\nratelimit-policy: \"throttle\";q=10;w=1\r\n"), "{head}");
    assert!(head.contains("\r\nratelimit: \"throttle\";r="), "{head}");
    assert!(!larder.http(&get("/healthz")).1.contains("ratelimit"), "health checks have no limit");
    let quiet = Larder::start(&["--throttle=10/s"]);
    assert!(!quiet.http(&get("/v1/kv/k")).1.contains("ratelimit"));
}

#[test]
fn any_number_of_clients_takes_the_same_memory() {
    let larder = Larder::start(&["--trusted-proxies=127.0.0.1", "--throttle=1/s"]);
    let before = larder.resident();
    let mut stream = from(1, larder.http);
    let mut sink = vec![0; 1 << 20];
    // Clients of a network that one attacker owns: 200,000 of its /64s.
    for block in 0..400 {
        let requests: String = (0..500)
            .map(|at| {
                format!("GET /v1/kv/k HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 2001:db8:{block:x}:{at:x}::1\r\n\r\n")
            })
            .collect();
        stream.write_all(requests.as_bytes()).unwrap();
        // A read may cut a status line: the start of one is kept for the next read.
        let (mut answers, mut kept) = (0, 0);
        while answers < 500 {
            let read = stream.read(&mut sink[kept..]).unwrap();
            assert_ne!(read, 0);
            let end = kept + read;
            answers += sink[..end].windows(9).filter(|window| window == b"HTTP/1.1 ").count();
            kept = end.min(8);
            sink.copy_within(end - kept..end, 0);
        }
    }
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more");
}
