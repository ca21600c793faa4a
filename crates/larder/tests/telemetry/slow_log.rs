//! SLOWLOG and LATENCY of Larder's own, in the forms of a real Redis.
use crate::{common, larder};
use common::{Client, RedisServer, Reply};
use larder::Larder;
use serde_json::Value;

fn array(reply: Reply) -> Vec<Reply> {
    let Reply::Array(Some(items)) = reply else { panic!("no array: {reply:?}") };
    items
}

/// What the entries have that does not differ between two servers: the arguments and the name of
/// the client. The other fields must have their types.
fn entries(client: &mut Client, command: &[&str]) -> Vec<(Reply, Reply)> {
    let entry = |entry| {
        let fields: [Reply; 6] = array(entry).try_into().unwrap();
        let [Reply::Int(id), Reply::Int(at), Reply::Int(micros), args, Reply::Bulk(Some(address)), name] = fields
        else {
            panic!("another form: {fields:?}");
        };
        assert!(id >= 0 && at > 1_700_000_000 && (0..60_000_000).contains(&micros), "{id} {at} {micros}");
        assert!(address.starts_with(b"127.0.0.1:"), "{address:?}");
        (args, name)
    };
    array(client.command(command)).into_iter().map(entry).collect()
}

#[test]
fn the_slow_log_is_that_of_redis() {
    let redis = RedisServer::with(&["--slowlog-log-slower-than", "0", "--slowlog-max-len", "12"]);
    let larder = Larder::start(&["--slowlog-log-slower-than", "0ms"]);
    assert_eq!(larder.client().command(&["CONFIG", "SET", "slowlog-max-len", "12"]), Reply::ok());
    let (long, many) = ("x".repeat(200), vec!["k"; 40]);
    let mget = [&["MGET"], many.as_slice()].concat();
    let mut said = Vec::new();
    for mut client in [redis.client(), larder.client()] {
        let mut replies = Vec::new();
        let mut command = |command: &[&str]| client.command(command);
        command(&["CLIENT", "SETNAME", "shop"]);
        replies.push(command(&["SLOWLOG", "RESET"]));
        for line in [&["SET", "k", &long][..], &["GET", "k"], &["GET", "none"], &mget, &["MULTI"], &["INCR", "n"]] {
            command(line);
        }
        command(&["EXEC"]);
        command(&["AUTH", "user", "secret"]).error();
        replies.push(command(&["SLOWLOG", "LEN"]));
        for count in ["-2", "x"] {
            replies.push(command(&["SLOWLOG", "GET", count]));
        }
        for name in ["slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold"] {
            replies.push(command(&["CONFIG", "GET", name]));
        }
        // Ten without a number; all of them.
        let ten = entries(&mut client, &["SLOWLOG", "GET"]);
        assert_eq!(ten.len(), 10);
        let all = entries(&mut client, &["SLOWLOG", "GET", "-1"]);
        assert_eq!(all.len(), 12);
        replies.push(client.command(&["CONFIG", "SET", "slowlog-log-slower-than", "-1", "slowlog-max-len", "3"]));
        replies.push(client.command(&["CONFIG", "GET", "slowlog-log-slower-than"]));
        replies.push(client.command(&["PING"]));
        // The length is cut when the next entry comes, or at once.
        let last = entries(&mut client, &["SLOWLOG", "GET", "2"]);
        replies.push(client.command(&["SLOWLOG", "RESET"]));
        replies.push(client.command(&["SLOWLOG", "LEN"]));
        said.push((replies, ten, all, last));
    }
    let (ours, theirs) = (said.pop().unwrap(), said.pop().unwrap());
    assert_eq!(ours, theirs);
}

#[test]
fn commands_that_wait_for_a_redis_are_logged_with_their_client() {
    // Nothing else is slow, on a busy machine either.
    let source = RedisServer::with(&["--slowlog-log-slower-than", "1000000"]);
    source.command(&["SET", "k", "v"]);
    let larder = Larder::start(&["--source", &source.url(), "--slowlog-log-slower-than", "500ms", "--allow-faults"]);
    let mut client = larder.client();
    client.command(&["CLIENT", "SETNAME", "shop"]);
    assert_eq!(client.command(&["HSET", "h", "a", "1"]), Reply::Int(1));
    assert_eq!(client.command(&["SLOWLOG", "LEN"]), Reply::Int(0));
    let fault = r#"{"at":"source","kind":"delay","delay":"600ms","duration":"10m"}"#;
    let length = fault.len();
    let (status, ..) = larder.admin(&format!(
        "POST /v1/faults HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{fault}"
    ));
    assert_eq!(status, 201);
    assert_eq!(client.command(&["CONFIG", "SET", "larder-latency-monitor-threshold", "500ms"]), Reply::ok());
    // A miss, a write, a forwarded command; a hit and a blocking command are not slow.
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    assert_eq!(client.command(&["SET", "k", "w"]), Reply::ok());
    assert_eq!(client.command(&["HGET", "h", "a"]), Reply::bulk("1"));
    let logged: Vec<Reply> = entries(&mut client, &["SLOWLOG", "GET"]).into_iter().map(|(args, _)| args).collect();
    let command = |words: &[&str]| Reply::Array(Some(words.iter().map(Reply::bulk).collect()));
    assert_eq!(logged, [command(&["HGET", "h", "a"]), command(&["SET", "k", "w"]), command(&["GET", "k"])]);
    let page: Value = serde_json::from_str(&larder.get("/v1/slow-log?count=2")).unwrap();
    assert_eq!((&page["slower_than_micros"], &page["max_len"]), (&500_000.into(), &128.into()));
    assert_eq!(page["entries"].as_array().unwrap().len(), 2);
    let first = &page["entries"][0];
    assert_eq!(first["command"], serde_json::json!(["HGET", "h", "a"]));
    assert_eq!(first["client_name"], "shop");
    assert!(first["micros"].as_u64().unwrap() >= 500_000, "{page}");
    let events = array(client.command(&["LATENCY", "LATEST"]));
    assert_eq!(events.len(), 2, "SET is no fast command: {events:?}");
    assert_eq!(page["events"][0]["name"], "command");
    // Redis keeps its own log and its own parameters.
    assert_eq!(source.command(&["SLOWLOG", "LEN"]), Reply::Int(0));
    assert_eq!(client.command(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]), Reply::ok());
    client.command(&["HGET", "h", "a"]);
    assert!(source.command(&["SLOWLOG", "LEN"]).int() > 0);
}

#[test]
fn the_doctor_says_what_to_type_with_every_source() {
    let source = RedisServer::start();
    for source in ["none:", &source.url()] {
        let larder = Larder::start(&["--source", source]);
        let mut client = larder.client();
        let mut report = || {
            let Reply::Bulk(Some(report)) = client.command(&["LATENCY", "DOCTOR"]) else { panic!("no text") };
            String::from_utf8(report).unwrap()
        };
        let said = report();
        let typed = said.split_once("To record them: ").map(|(_, typed)| typed.trim().to_owned());
        let typed = typed.unwrap_or_else(|| panic!("{said}"));
        let words: Vec<&str> = typed.split(' ').collect();
        assert_eq!(larder.client().command(&words), Reply::ok(), "{typed}");
        assert_eq!(report(), "No command has taken 100 ms or longer.\n", "{source}: {typed}");
    }
}

#[test]
fn latency_has_the_forms_of_redis() {
    let redis = RedisServer::with(&["--latency-monitor-threshold", "1", "--enable-debug-command", "yes"]);
    let larder = Larder::start(&["--source", "demo:", "--allow-faults"]);
    assert_eq!(larder.client().command(&["CONFIG", "SET", "latency-monitor-threshold", "1"]), Reply::ok());
    let fault = r#"{"at":"source","kind":"delay","delay":"20ms","duration":"10m"}"#;
    let length = fault.len();
    larder.admin(&format!(
        "POST /v1/faults HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{fault}"
    ));
    let (mut ours, mut theirs) = (larder.client(), redis.client());
    theirs.command(&["DEBUG", "SLEEP", "0.02"]);
    ours.command(&["GET", "k"]);
    for (client, name) in [(&mut ours, "fast-command"), (&mut theirs, "command")] {
        let events = array(client.command(&["LATENCY", "LATEST"]));
        let event = events.into_iter().map(array).find(|event| event[0] == Reply::bulk(name)).unwrap();
        let [_, Reply::Int(at), Reply::Int(latest), Reply::Int(longest)] = event[..] else { panic!("{event:?}") };
        assert!(at > 1_700_000_000 && latest >= 20 && longest >= latest, "{event:?}");
        let samples = array(client.command(&["LATENCY", "HISTORY", name]));
        let sample = array(samples[0].clone());
        assert!(matches!(sample[..], [Reply::Int(_), Reply::Int(20..)]), "{sample:?}");
        assert_eq!(client.command(&["LATENCY", "HISTORY", "none"]), Reply::Array(Some(vec![])));
        let Reply::Bulk(Some(graph)) = client.command(&["LATENCY", "GRAPH", name]) else { panic!("no graph") };
        let graph = String::from_utf8(graph).unwrap();
        // One sample: its column has the least height, and its age in seconds is below it.
        let lines: Vec<&str> = graph.lines().collect();
        assert_eq!((lines[1], lines[2..7].concat().as_str()), ("-".repeat(80).as_str(), "   _ "), "{graph}");
        let title = format!("{name} - high {latest} ms, low {latest} ms (all time high {longest} ms)");
        assert_eq!((lines[0], lines.last()), (title.as_str(), Some(&"s")), "{graph}");
        let none = client.command(&["LATENCY", "GRAPH", "none"]);
        assert_eq!(none.error(), "ERR No samples available for event 'none'");
        assert_eq!(client.command(&["LATENCY", "RESET", "none"]), Reply::Int(0));
        let Reply::Bulk(Some(report)) = client.command(&["LATENCY", "DOCTOR"]) else { panic!("no text") };
        assert!(String::from_utf8(report).unwrap().contains(name));
        assert!(client.command(&["LATENCY", "RESET", name, "none"]).int() >= 1);
        assert_eq!(client.command(&["LATENCY", "HISTORY", name]), Reply::Array(Some(vec![])));
        client.command(&["LATENCY", "RESET"]).int();
    }
    // The histograms: names, calls, and ends that are powers of two of nanoseconds.
    for client in [&mut ours, &mut theirs] {
        client.command(&["CONFIG", "RESETSTAT"]);
        for _ in 0..3 {
            client.command(&["EXISTS", "k"]);
        }
        client.command(&["CONFIG", "GET", "port"]);
        let found = array(client.command(&["LATENCY", "HISTOGRAM", "exists", "config", "nosuch"]));
        let names: Vec<&Reply> = found.iter().step_by(2).collect();
        assert!(names.contains(&&Reply::bulk("config|get")) && !names.contains(&&Reply::bulk("nosuch")), "{found:?}");
        let at = found.iter().position(|name| *name == Reply::bulk("exists")).unwrap();
        let fields = array(found[at + 1].clone());
        assert_eq!(fields[..3], [Reply::bulk("calls"), Reply::Int(3), Reply::bulk("histogram_usec")]);
        let buckets: Vec<i64> = array(fields[3].clone()).iter().map(Reply::int).collect();
        assert!(!buckets.is_empty() && buckets.len().is_multiple_of(2), "{buckets:?}");
        assert_eq!(buckets.last(), Some(&3), "{buckets:?}");
        // Rounded down, or up.
        let is_end = |micros: &i64| (10..40).any(|power| [0, 1].map(|up| (1i64 << power) / 1000 + up).contains(micros));
        assert!(buckets.iter().step_by(2).all(is_end), "{buckets:?}");
    }
}
