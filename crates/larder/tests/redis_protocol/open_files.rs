//! The limit on open files: connections to the source that belong to one client do not take the files
//! of others.
use super::{
    blocking::blocked,
    common::{Client, RedisServer, Reply, wait_until},
    larder::Larder,
};

const LIMIT: &str = "ulimit -n 400";
/// With a connection to the source for each, these need more files than there are.
const CLIENTS: usize = 200;

fn before(redis: &RedisServer) -> Larder {
    Larder::with_limits(LIMIT, &["--source", &redis.url(), "--threads", "1"])
}
fn names_the_limit(text: &str) -> bool {
    text.contains("ulimit -n")
}

#[test]
fn clients_with_connections_of_their_own_leave_files_for_others() {
    let redis = RedisServer::start();
    assert_eq!(redis.command(&["SET", "k", "v"]), Reply::ok());
    // A command that needs a connection of the client's own, and whether it blocks once it has one.
    for (command, blocks) in [
        (&["BLPOP", "queue", "0"][..], true),
        (&["XREAD", "BLOCK", "0", "STREAMS", "stream", "$"], true),
        (&["BZPOPMIN", "ranks", "0"], true),
        (&["SUBSCRIBE", "news"], false),
        (&["PSUBSCRIBE", "news.*"], false),
        (&["SSUBSCRIBE", "news"], false),
        (&["MONITOR"], false),
        (&["WATCH", "k"], false),
        (&["SELECT", "1"], false),
    ] {
        let larder = before(&redis);
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| larder.client()).collect();
        for client in &mut clients {
            assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into()));
        }
        clients.iter_mut().for_each(|client| client.send(command).unwrap());
        if blocks {
            // A client that is blocked reads nothing.
            let unanswered = |clients: &[Client]| clients.iter().filter(|client| client.is_open()).count();
            wait_until("each client to be blocked or refused", || unanswered(&clients) == blocked(&redis));
            clients.retain(|client| !client.is_open());
        }
        let mut refused = 0;
        for client in &mut clients {
            if let Reply::Error(text) = client.read().unwrap() {
                assert!(names_the_limit(&text), "{command:?}: {text}");
                assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into()), "{command:?}: it stays");
                refused += 1;
            }
        }
        assert!((1..CLIENTS - 10).contains(&refused), "{command:?}: {refused} were refused");
        // Others are served, with the source and without.
        let mut other = larder.client();
        assert_eq!(other.command(&["PING"]), Reply::Simple("PONG".into()), "{command:?}");
        assert_eq!(other.command(&["GET", "k"]), Reply::bulk("v"), "{command:?}");
        assert_eq!(larder.admin("GET /healthz HTTP/1.0\r\n\r\n").0, 200, "{command:?}");
        assert!(larder.metric("process_open_fds") < 400.0 - 50.0, "{command:?}: the reserve is not touched");
    }
}

#[test]
fn at_the_limit_new_clients_learn_which_one_it_is_and_admin_is_served() {
    let redis = RedisServer::start();
    let larder = before(&redis);
    let mut clients = Vec::new();
    let refusal = loop {
        let mut client = larder.client();
        match client.try_command(&["SUBSCRIBE", "news"]) {
            Ok(Reply::Error(text)) if text.contains("max number of clients") => break text,
            Ok(Reply::Error(text)) => assert!(names_the_limit(&text), "{text}"),
            Ok(_) => {}
            Err(error) => panic!("client {}: {error}", clients.len()),
        }
        clients.push(client);
        assert!(clients.len() < 400);
    };
    assert_eq!(refusal, "ERR max number of clients reached (open files, ulimit -n)");
    let (status, _, body) = larder.http("GET /healthz HTTP/1.0\r\n\r\n");
    assert_eq!((status, names_the_limit(&String::from_utf8(body).unwrap())), (503, true));
    for _ in 0..3 {
        assert_eq!(larder.admin("GET /healthz HTTP/1.0\r\n\r\n").0, 200);
    }
}

#[test]
fn the_soft_limit_is_raised_to_the_hard_one() {
    let larder = Larder::with_limits("ulimit -Sn 64; ulimit -Hn 512", &["--threads", "1"]);
    let mut clients: Vec<_> = (0..300).map(|_| larder.client()).collect();
    for client in &mut clients {
        assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into()));
    }
}
