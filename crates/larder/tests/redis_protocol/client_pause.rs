//! CLIENT PAUSE: at Redis itself, which shows what is expected, at Larder alone, and at Larder in
//! front of Redis.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::Larder,
};

/// Runs the script at three doors; with `true` where there are more than strings.
fn everywhere(script: impl Fn(u16, bool)) {
    let redis = RedisServer::start();
    script(redis.port(), true);
    redis.command(&["FLUSHALL"]);
    script(Larder::start(&["--threads", "2", "--source", &redis.url()]).redis, true);
    script(Larder::start(&["--threads", "2"]).redis, false);
}
fn client(port: u16) -> Client {
    Client::connect(port).unwrap()
}
fn wait_for(client: &mut Client, paused: usize) {
    wait_until(&format!("{paused} to wait"), || {
        // Whichever client has them wait.
        let Reply::Bulk(Some(info)) = client.command(&["INFO", "clients", "larder"]) else {
            panic!("INFO has no text")
        };
        String::from_utf8(info).unwrap().contains(&format!("blocked_clients:{paused}\r"))
    });
}

#[test]
fn writes_wait_and_reads_do_not() {
    everywhere(|port, types| {
        let mut pauses = client(port);
        assert_eq!(pauses.command(&["SET", "k", "1"]), Reply::ok());
        // Begun before.
        let mut transacts = client(port);
        assert_eq!(transacts.command(&["MULTI"]), Reply::ok());
        assert_eq!(transacts.command(&["INCR", "k"]), Reply::Simple("QUEUED".into()));
        assert_eq!(pauses.command(&["CLIENT", "PAUSE", "600000", "WRITE"]), Reply::ok());
        transacts.send(&["EXEC"]).unwrap();
        wait_for(&mut pauses, 1);
        let mut writers: Vec<Client> = Vec::new();
        let commands: &[&[&str]] = match types {
            true => &[
                &["INCR", "n"],
                &["HSET", "h", "f", "v"],
                &["EVAL", "return 1", "0"],
                &["PUBLISH", "c", "m"],
                &["PFCOUNT", "p"],
            ],
            false => &[&["INCR", "n"], &["APPEND", "a", "b"]],
        };
        for command in commands {
            let mut writer = client(port);
            writer.send(command).unwrap();
            writers.push(writer);
            wait_for(&mut pauses, 1 + writers.len());
        }
        // Reads, errors that need no waiting for, and what is no data.
        assert_eq!(pauses.command(&["GET", "k"]), Reply::bulk("1"));
        assert_eq!(pauses.command(&["STRLEN", "n"]), Reply::Int(0));
        assert_eq!(pauses.command(&["SET", "k"]).error(), "ERR wrong number of arguments for 'set' command");
        assert_eq!(pauses.command(&["PING"]), Reply::Simple("PONG".into()));
        assert_eq!(pauses.command(&["MULTI"]), Reply::ok());
        assert_eq!(pauses.command(&["GET", "k"]), Reply::Simple("QUEUED".into()));
        assert_eq!(pauses.command(&["EXEC"]), Reply::Array(Some(vec![Reply::bulk("1")])));
        if types {
            assert_eq!(pauses.command(&["HGET", "h", "f"]), Reply::nil());
        }
        assert_eq!(pauses.command(&["CLIENT", "UNPAUSE"]), Reply::ok());
        assert_eq!(transacts.read().unwrap(), Reply::Array(Some(vec![Reply::Int(2)])));
        for (mut writer, command) in writers.into_iter().zip(commands) {
            let reply = writer.read().unwrap();
            assert!(matches!(reply, Reply::Int(_)), "{command:?}: {reply:?}");
        }
        wait_for(&mut pauses, 0);
    });
}

#[test]
fn all_wait_until_the_time_is_over() {
    everywhere(|port, _| {
        let (mut pauses, mut waits) = (client(port), client(port));
        assert_eq!(waits.command(&["SET", "k", "1"]), Reply::ok());
        let start = std::time::Instant::now();
        // The longer and the stricter counts. What follows in the same pipeline waits, too.
        pauses.send(&["CLIENT", "PAUSE", "300", "ALL"]).unwrap();
        pauses.send(&["PING"]).unwrap();
        assert_eq!(pauses.read().unwrap(), Reply::ok());
        waits.send(&["GET", "k"]).unwrap();
        assert_eq!(waits.read().unwrap(), Reply::bulk("1"));
        assert_eq!(pauses.read().unwrap(), Reply::Simple("PONG".into()));
        assert!(start.elapsed().as_millis() >= 299, "{:?}", start.elapsed());
        assert_eq!(pauses.command(&["SET", "k", "2"]), Reply::ok(), "over by itself");
    });
}

#[test]
fn what_is_no_pause_is_refused() {
    everywhere(|port, _| {
        let mut client = client(port);
        for (args, error) in [
            (&["x"][..], "ERR timeout is not an integer or out of range"),
            (&["-1"], "ERR timeout is negative"),
            (&["1", "SOME"], "ERR CLIENT PAUSE mode must be WRITE or ALL"),
            (&["1", "ALL", "X"], "ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP."),
        ] {
            assert_eq!(client.command(&[&["CLIENT", "PAUSE"], args].concat()).error(), error);
        }
        assert_eq!(client.command(&["SET", "k", "v"]), Reply::ok());
    });
}

#[test]
fn a_process_that_is_to_end_does_not_wait() {
    let mut larder = Larder::start(&["--grace", "10s"]);
    let mut client = larder.client();
    assert_eq!(client.command(&["CLIENT", "PAUSE", "600000"]), Reply::ok());
    client.send(&["SET", "k", "v"]).unwrap();
    client.send(&["GET", "k"]).unwrap();
    wait_until("it to wait", || larder.metric("larder_redis_commands_total") >= 1.0);
    larder.signal(rustix::process::Signal::TERM);
    assert_eq!(client.read().unwrap(), Reply::ok());
    assert_eq!(client.read().unwrap(), Reply::bulk("v"));
    assert!(larder.wait().0.success());
}
