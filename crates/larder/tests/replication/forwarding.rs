//! Replicas that forward their clients' writes to the primary.
use super::{
    common::{Client, Port, Reply, wait_until},
    larder::{Larder, encode, expect},
    link_proxy::LinkProxy,
    workload::{Writes, info, replica_of, wait_for_equality, wait_for_link},
};
use crate::tls::certificates::Authority;
use rustix::process::Signal;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
};
use tokio_rustls::rustls::{ServerConnection, StreamOwned};

/// A replica of a Larder that forwards writes of both protocols.
fn forwarding(primary: &Larder, args: &[&str]) -> Larder {
    let writes = format!("--replica-writes=forward:127.0.0.1:{}", primary.http);
    let replica = replica_of(primary.redis, &[&[&*writes], args].concat());
    wait_for_link(&replica);
    replica
}

fn http(method: &str, target: &str, headers: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "{method} {target} HTTP/1.1\r\nhost: x\r\ncontent-length: {len}\r\nconnection: close\r\n{headers}\r\n{body}"
    )
}

#[test]
fn who_writes_at_a_replica_reads_its_own_write_there() {
    let primary = Larder::start(&["--threads=2"]);
    let replica = forwarding(&primary, &["--threads=2"]);
    std::thread::scope(|scope| {
        for of in 0..3 {
            let replica = &replica;
            scope.spawn(move || {
                let (mut writer, mut reader) = (replica.client(), replica.client());
                for n in 0..200 {
                    let (key, value) = (format!("k{of}"), n.to_string());
                    assert_eq!(writer.command(&["SET", &key, &value]), Reply::ok());
                    assert_eq!(reader.command(&["GET", &key]), Reply::bulk(&value));
                    assert_eq!(writer.command(&["INCR", &key]), Reply::Int(n + 1));
                    assert_eq!(reader.command(&["GET", &key]), Reply::bulk((n + 1).to_string()));
                }
            });
        }
    });
    assert_eq!(primary.client().command(&["GET", "k0"]), Reply::bulk("200"));
    // In one pipeline, in order.
    let mut client = replica.client();
    for n in 0..100 {
        client.send(&["SET", "p", &n.to_string()]).unwrap();
        client.send(&["GET", "p"]).unwrap();
    }
    for n in 0..100 {
        assert_eq!(client.read().unwrap(), Reply::ok());
        assert_eq!(client.read().unwrap(), Reply::bulk(n.to_string()));
    }
}

#[test]
fn writes_of_all_kinds_have_the_same_effect_as_at_the_primary() {
    let primary = Larder::start(&[]);
    let replica = forwarding(&primary, &[]);
    Writes::new(30, 60).run(&replica, 800, true);
    wait_for_equality(&primary, &replica);
    // Errors are the primary's, in both versions of the protocol.
    let mut client = replica.client();
    assert_eq!(client.command(&["SET", "text", "x"]), Reply::ok());
    assert_eq!(client.command(&["INCR", "text"]).error(), "ERR value is not an integer or out of range");
    assert_eq!(client.command(&["GETDEL", "none"]), Reply::nil());
    let mut stream = replica.stream();
    stream.write_all(&encode(&[b"HELLO", b"3"])).unwrap();
    super::larder::skip_until(&mut stream, b"modules\r\n*0\r\n");
    stream.write_all(&[encode(&[b"GETDEL", b"none"]), encode(&[b"SET", b"k", b"v"])].concat()).unwrap();
    expect(&mut stream, b"_\r\n+OK\r\n");
    // Replies that a client does not want stay away.
    stream.write_all(&[encode(&[b"CLIENT", b"REPLY", b"SKIP"]), encode(&[b"SET", b"k", b"w"])].concat()).unwrap();
    stream.write_all(&encode(&[b"GET", b"k"])).unwrap();
    expect(&mut stream, b"$1\r\nw\r\n");
}

#[test]
fn transactions_are_forwarded_whole() {
    let primary = Larder::start(&[]);
    let replica = forwarding(&primary, &[]);
    let mut client = replica.client();
    assert_eq!(client.command(&["MULTI"]), Reply::ok());
    for command in [&["SET", "a", "1"][..], &["INCR", "a"], &["GET", "a"]] {
        assert_eq!(client.command(command), Reply::Simple("QUEUED".into()));
    }
    let done = Reply::Array(Some(vec![Reply::ok(), Reply::Int(2), Reply::bulk("2")]));
    assert_eq!(client.command(&["EXEC"]), done);
    assert_eq!(client.command(&["GET", "a"]), Reply::bulk("2"));
    assert_eq!(primary.client().command(&["GET", "a"]), Reply::bulk("2"));
    // Reads alone stay here.
    client.command(&["WATCH", "a"]);
    client.command(&["MULTI"]);
    client.command(&["GET", "a"]);
    assert_eq!(client.command(&["EXEC"]), Reply::Array(Some(vec![Reply::bulk("2")])));
    client.command(&["WATCH", "a"]);
    client.command(&["MULTI"]);
    client.command(&["SET", "a", "3"]);
    assert!(client.command(&["EXEC"]).error().contains("after WATCH is not forwarded"));
    assert_eq!(client.command(&["GET", "a"]), Reply::bulk("2"));
    assert_eq!(client.command(&["SET", "a", "4"]), Reply::ok(), "the transaction is over");
}

#[test]
fn http_writes_are_forwarded_with_their_answers() {
    let primary = Larder::start(&[]);
    let replica = forwarding(&primary, &[]);
    for n in 0..50 {
        let put = http("PUT", "/v1/kv/k?ttl=1h", "cache-tag: t\r\n", &n.to_string());
        let (status, head, _) = replica.http(&put);
        assert_eq!(status, if n == 0 { 201 } else { 204 });
        assert!(head.contains("etag: ") && !head.contains("larder-changes"), "{head}");
        let (status, _, body) = replica.http(&http("GET", "/v1/kv/k", "", ""));
        assert_eq!((status, body), (200, n.to_string().into_bytes()));
    }
    assert_eq!(replica.http(&http("PUT", "/v1/kv/k", "if-none-match: *\r\n", "x")).0, 412);
    let item = http("POST", "/cache/v1/item", "", r#"{"key":"i","value":[1],"ttl":60}"#);
    let (status, _, body) = replica.http(&item);
    assert_eq!((status, &body[..]), (201, &b"{\"key\":\"i\",\"value\":[1],\"ttl\":60}\n"[..]));
    assert_eq!(replica.http(&http("DELETE", "/cache/v1/item", "", r#"{"key":"i"}"#)).0, 204);
    assert_eq!(replica.http(&http("DELETE", "/v1/tags/t", "", "")).0, 204);
    assert_eq!(replica.http(&http("GET", "/v1/kv/k", "", "")).0, 404);
    // What came from a replica goes no further.
    let (status, _, body) = replica.http(&http("PUT", "/v1/kv/k", "larder-forwarded: 1\r\n", "x"));
    assert_eq!(status, 405, "{}", String::from_utf8_lossy(&body));
}

/// The head of the one request that comes, over TLS or not. It is answered.
fn record(listener: &TcpListener, tls: Option<ServerConnection>) -> Vec<String> {
    fn head(mut stream: impl Read + Write) -> Vec<String> {
        let lines = BufReader::new(&mut stream).lines().map(Result::unwrap);
        let lines = lines.take_while(|line| !line.is_empty()).collect();
        stream.write_all(b"HTTP/1.1 204 No Content\r\nserver-timing: x\r\n\r\n").unwrap();
        stream.flush().unwrap();
        lines
    }
    let (stream, _) = listener.accept().unwrap();
    match tls {
        None => head(&stream),
        Some(tls) => head(StreamOwned::new(tls, stream)),
    }
}

/// The replica is the client of its primary: it sends what the write depends on, over TLS its own
/// password, and nothing that says who its own client is.
#[test]
fn a_forwarded_http_write_has_no_credentials_and_no_address_of_the_client() {
    let authority = Authority::new();
    let files = authority.issue("primary", &["127.0.0.1"]);
    for over_tls in [false, true] {
        let primary = Larder::start(&["--replication-secret=stream"]);
        let recorder = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = recorder.local_addr().unwrap().to_string();
        let tls = over_tls.then(|| ServerConnection::new(files.server()).unwrap());
        let http_address = match over_tls {
            true => format!("--replica-writes=forward:https://{host}?ca={}", authority.file().display()),
            false => format!("--replica-writes=forward:{host}"),
        };
        let args = ["--password=open", "--replication-secret=stream", &http_address];
        let mut replica = replica_of(primary.redis, &args);
        wait_until("the replica to follow", || replica.get("/metrics").contains("\nlarder_replication_link_up 1\n"));
        let recorded = std::thread::spawn(move || record(&recorder, tls));
        let sent = "authorization: Bearer open\r\ncookie: session=1\r\nx-forwarded-for: 192.0.2.1\r\n\
            forwarded: for=192.0.2.1\r\nx-real-ip: 192.0.2.1\r\nproxy-authorization: Basic eDp5\r\n\
            x-api-key: k\r\norigin: http://x\r\nuser-agent: x\r\ncontent-type: text/plain\r\ncache-tag: a\r\n\
            surrogate-key: b\r\nif-none-match: *\r\nx-request-id: 7\r\n";
        assert_eq!(replica.http(&http("PUT", "/v1/kv/k?ttl=1h", sent, "v")).0, 204);
        let mut lines = recorded.join().unwrap();
        assert_eq!(lines.remove(0), "PUT /v1/kv/k?ttl=1h HTTP/1.1");
        lines.sort();
        let host = format!("host: {host}");
        let mut expected = vec![
            "cache-tag: a",
            "content-length: 1",
            "content-type: text/plain",
            &host,
            "if-none-match: *",
            "larder-forwarded: 1",
            "surrogate-key: b",
            "x-request-id: 7",
        ];
        if over_tls {
            // `default:open`
            expected.insert(0, "authorization: Basic ZGVmYXVsdDpvcGVu");
        }
        assert_eq!(lines, expected);
        replica.signal(Signal::TERM);
        replica.wait();
        let said = replica.stderr();
        assert_eq!(said.contains("is without TLS, so the password is not sent there"), !over_tls, "{said}");
    }
}

#[test]
fn a_primary_that_is_down_is_named_and_reads_go_on() {
    let mut primary = Larder::start(&[]);
    let replica = forwarding(&primary, &[]);
    let mut client = replica.client();
    assert_eq!(client.command(&["SET", "k", "v"]), Reply::ok());
    let (redis, http_port) = (primary.redis, primary.http);
    primary.signal(Signal::KILL);
    primary.wait();
    let error = client.command(&["SET", "k", "w"]);
    assert!(error.error().starts_with("ERR primary unavailable: "), "{error:?}");
    assert!(error.error().contains(&redis.to_string()), "{error:?}");
    let (status, _, body) = replica.http(&http("PUT", "/v1/kv/k", "", "w"));
    let body = String::from_utf8(body).unwrap();
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("/problems/primary-unavailable") && body.contains(&http_port.to_string()), "{body}");
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    // It takes writes itself once it is promoted.
    assert_eq!(client.command(&["REPLICAOF", "NO", "ONE"]), Reply::ok());
    assert_eq!(client.command(&["SET", "k", "w"]), Reply::ok());
    assert_eq!(replica.http(&http("PUT", "/v1/kv/k", "", "x")).0, 204);
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("x"));
}

/// The connections to the primary that has ended are not used any more.
#[test]
fn the_first_write_after_a_restart_of_the_primary_is_made() {
    let mut primary = Larder::start(&[]);
    let replica = replica_of(primary.redis, &["--replica-writes=forward"]);
    wait_for_link(&replica);
    let mut client = replica.client();
    assert_eq!(client.command(&["SET", "k", "v"]), Reply::ok());
    primary.signal(Signal::KILL);
    primary.wait();
    wait_until("the loss to be noticed", || info(&replica, "master_link_status").as_deref() == Some("down"));
    primary.start_again(&[]);
    wait_for_link(&replica);
    assert_eq!(client.command(&["SET", "k", "w"]), Reply::ok());
    assert_eq!(primary.client().command(&["GET", "k"]), Reply::bulk("w"));
}

#[test]
fn replicas_that_follow_each_other_pass_no_write_on_for_ever() {
    let (one, other) = (Port::free(), Port::free());
    let start = |own: &Port, of: &Port| {
        let (own, of) = (format!("--redis=127.0.0.1:{}", own.number), format!("--replica-of=127.0.0.1:{}", of.number));
        Larder::start(&[&own, &of, "--replica-writes=forward"])
    };
    let (first, _second) = (start(&one, &other), start(&other, &one));
    let error = first.client().command(&["SET", "k", "v"]);
    assert!(error.error().contains("READONLY"), "{error:?}");
    // Over HTTP the address is of the primary in the settings alone.
    let primary = Larder::start(&[]);
    let replica = forwarding(&primary, &[]);
    let elsewhere = Larder::start(&[]);
    let port = elsewhere.redis.to_string();
    assert_eq!(replica.client().command(&["REPLICAOF", "127.0.0.1", &port]), Reply::ok());
    wait_until("the other primary", || info(&replica, "master_link_status").as_deref() == Some("up"));
    assert_eq!(replica.client().command(&["SET", "k", "v"]), Reply::ok());
    assert_eq!(elsewhere.client().command(&["GET", "k"]), Reply::bulk("v"));
    assert_eq!(replica.http(&http("PUT", "/v1/kv/k", "", "w")).0, 405);
}

#[test]
fn a_password_is_shown_to_the_primary_and_an_answer_does_not_wait_for_a_link_that_is_down() {
    let primary = Larder::start(&["--password=open", "--replication-secret=stream"]);
    let args = ["--password=open", "--replication-secret=stream", "--replica-writes=forward"];
    let replica = replica_of(primary.redis, &args);
    let login = |port: u16| {
        let mut client = Client::connect(port).unwrap();
        assert_eq!(client.command(&["AUTH", "open"]), Reply::ok());
        client
    };
    let mut client = login(replica.redis);
    wait_until("the write to be taken", || client.command(&["SET", "k", "v"]) == Reply::ok());
    assert_eq!(login(primary.redis).command(&["GET", "k"]), Reply::bulk("v"));
    // Without the password the primary refuses, and says why.
    let other = replica_of(primary.redis, &["--replication-secret=stream", "--replica-writes=forward"]);
    let refused = other.client().command(&["SET", "k", "w"]);
    assert!(refused.error().contains("NOAUTH") && refused.error().contains("nothing was written"), "{refused:?}");
    // The proxy carries the link and the writes: once it is cut, both end.
    let proxy = LinkProxy::to(primary.redis);
    let third = replica_of(proxy.port, &args);
    let has_link = || third.get("/metrics").lines().any(|line| line == "larder_replication_link_up 1");
    wait_until("the replica to follow", has_link);
    let mut client = login(third.redis);
    wait_until("the write to be taken", || client.command(&["SET", "k", "x"]) == Reply::ok());
    proxy.cut();
    assert!(client.command(&["SET", "k", "y"]).error().starts_with("ERR primary unavailable: "));
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("x"));
    proxy.mend();
    wait_until("the write to be taken", || client.command(&["SET", "k", "z"]) == Reply::ok());
}

/// `ack` and `from`: an answer that a replica has the write, or that it has not.
#[test]
fn a_write_of_an_entity_waits_for_as_many_nodes_as_it_asks_for() {
    let primary = Larder::start(&[]);
    let replica = replica_of(primary.redis, &[]);
    wait_for_link(&replica);
    // On a busy machine the replica may need more than a second. The write stays, and is made again.
    let send = |method: &str, query: &str| {
        let mut tries = (0..10).map(|_| primary.http(&http(method, &format!("/v0/entity?{query}"), "", "v")).0);
        tries.find(|status| *status != 504).unwrap_or(504)
    };
    for (number, query) in ["ack=2&from=2", "ack=1&from=2", "from=2", "ack=2"].into_iter().enumerate() {
        let key = format!("k{number}");
        assert_eq!(send("PUT", &format!("id={key}&{query}")), 201, "{query}");
        if query != "ack=1&from=2" {
            assert_eq!(replica.client().command(&["GET", &key]), Reply::bulk("v"), "{query}");
        }
    }
    assert_eq!(send("DELETE", "id=k0&ack=2&from=2"), 202);
    assert_eq!(replica.client().command(&["GET", "k0"]), Reply::nil());
    assert_eq!(send("PUT", "id=k&ack=2&from=3"), 400);
    assert_eq!(primary.client().command(&["GET", "k"]), Reply::nil(), "nothing was written");
    replica.signal(Signal::STOP);
    let (status, _, body) = primary.http(&http("PUT", "/v0/entity?id=k&ack=2&from=2", "", "v"));
    replica.signal(Signal::CONT);
    assert_eq!(status, 504, "{}", String::from_utf8_lossy(&body));
    assert_eq!(primary.client().command(&["GET", "k"]), Reply::bulk("v"), "the write stays");
}
