//! Commands that keep Redis busy for longer than `source-timeout`: other clients wait, as they
//! would at Redis itself.
use super::{
    common::{RedisServer, Reply, wait_until},
    larder::Larder,
};
use std::time::Duration;

/// Members of each set.
const MEMBERS: &str = "300000";

/// How long Redis itself was busy with the last command of this name, by its slow log.
fn took(redis: &RedisServer, name: &str) -> Duration {
    let Reply::Array(Some(entries)) = redis.command(&["SLOWLOG", "GET", "-1"]) else { panic!("no slow log") };
    let took = |entry: &Reply| {
        let Reply::Array(Some(parts)) = entry else { return None };
        let (Reply::Int(micros), Reply::Array(Some(command))) = (&parts[2], &parts[3]) else { return None };
        (command[0] == Reply::bulk(name)).then(|| Duration::from_micros(u64::try_from(*micros).unwrap()))
    };
    entries.iter().find_map(took).unwrap_or_default()
}

#[test]
fn others_wait_while_a_slow_command_runs() {
    let redis = RedisServer::start();
    let fill = "local t = {} for i = 1, tonumber(ARGV[1]) do t[#t + 1] = i t[#t + 1] = 'm' .. i \
                if #t >= 4000 then redis.call('ZADD', KEYS[1], unpack(t)) t = {} end end";
    for key in ["z1", "z2"] {
        assert_eq!(redis.command(&["EVAL", fill, "1", key, MEMBERS]), Reply::nil());
    }
    let slow: [&[&str]; 3] = [
        &["ZUNIONSTORE", "to", "4", "z1", "z2", "z1", "z2"],
        &["SORT", "z1", "BY", "none*", "GET", "none*", "GET", "nine*", "STORE", "sorted"],
        &["COPY", "to", "copy", "REPLACE"],
    ];
    // Each takes longer than `source-timeout`, and COPY explains the silence for five times as long.
    let alone = slow.map(|command| {
        assert!(matches!(redis.command(command), Reply::Int(_)));
        took(&redis, command[0])
    });
    let limit = *alone.iter().min().unwrap() / 2;
    let timeout = format!("{}ms", limit.as_millis().max(1));
    let larder = Larder::start(&["--threads", "2", "--source", &redis.url(), "--source-timeout", &timeout]);
    let mut other = larder.client();
    wait_until("the source to be connected", || other.command(&["INCR", "n"]) == Reply::Int(1));
    let mut count = 1;
    for command in slow {
        let mut client = larder.client();
        client.send(command).unwrap();
        let answer = std::thread::spawn(move || client.read().unwrap());
        while !answer.is_finished() {
            count += 1;
            assert_eq!(other.command(&["INCR", "n"]), Reply::Int(count), "{command:?}");
        }
        let answer = answer.join().unwrap();
        assert!(matches!(answer, Reply::Int(_)), "{command:?}: {answer:?}");
        let took = took(&redis, command[0]);
        assert!(took > limit, "{command:?}: it took only {took:?}, so nobody had to wait");
    }
}

/// A script has run for longer than Redis lets it: Redis refuses the scripts of all other clients, and each
/// of them learns so from Redis, although they share a connection.
#[test]
fn a_busy_server_refuses_each_client_in_its_own_words() {
    const CLIENTS: usize = 20;
    let redis = RedisServer::with(&["--lua-time-limit", "20"]);
    let larder = Larder::start(&["--threads", "1", "--source", &redis.url(), "--source-timeout", "5s"]);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| larder.client()).collect();
    for client in &mut clients {
        assert_eq!(client.command(&["EVAL", "return 1", "0"]), Reply::Int(1));
    }
    let mut endless = redis.client();
    endless.send(&["EVAL", "while true do end", "0"]).unwrap();
    let mut direct = redis.client();
    wait_until(
        "Redis to be busy",
        || matches!(direct.command(&["GET", "k"]), Reply::Error(text) if text.starts_with("BUSY ")),
    );
    for _ in 0..3 {
        clients.iter_mut().for_each(|client| client.send(&["EVAL", "return 1", "0"]).unwrap());
        for client in &mut clients {
            let answer = client.read().unwrap();
            assert!(answer.error().starts_with("BUSY Redis is busy running a script"), "{answer:?}");
        }
    }
    assert_eq!(direct.command(&["SCRIPT", "KILL"]), Reply::ok());
    assert!(endless.read().unwrap().error().contains("killed"));
    wait_until("scripts to run again", || {
        clients.iter_mut().all(|client| client.command(&["EVAL", "return 1", "0"]) == Reply::Int(1))
    });
}
