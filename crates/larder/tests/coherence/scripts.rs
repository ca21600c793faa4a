//! What scripts change without naming it, and databases that are swapped.
use super::{
    before,
    common::{Client, RedisServer, Reply, wait_until},
    until_kept,
};

const SET: &str = "return redis.call('SET', ARGV[1], ARGV[2])";

/// Redis announces the change on other connections than the one that it answers the script on.
#[test]
fn what_a_script_changes_is_seen_by_the_next_read() {
    let redis = RedisServer::start();
    let library = "#!lua name=l\nredis.register_function('set', function(keys, args) return redis.call('SET', args[1], args[2]) end)";
    assert_eq!(redis.command(&["FUNCTION", "LOAD", library]), Reply::bulk("l"));
    let Reply::Bulk(Some(sha)) = redis.command(&["SCRIPT", "LOAD", SET]) else { panic!("no hash") };
    let sha = String::from_utf8(sha).unwrap();
    let larder = before(&redis, &["--threads", "2", "--source-connections", "2"]);
    let mut client = larder.client();
    for round in 0..800 {
        let (key, value) = (format!("k{}", round % 7), round.to_string());
        client.command(&["GET", &key]);
        let write =
            |client: &mut Client, command: &[&str]| client.send(&[command, &[&*key, &*value]].concat()).unwrap();
        let mut replies = 1;
        match round % 5 {
            0 => write(&mut client, &["EVAL", SET, "0"]),
            1 => write(&mut client, &["EVALSHA", &sha, "0"]),
            2 => write(&mut client, &["FCALL", "set", "0"]),
            3 => {
                client.send(&["MULTI"]).unwrap();
                write(&mut client, &["EVAL", SET, "0"]);
                client.send(&["EXEC"]).unwrap();
                replies = 3;
            }
            // Behind a command of another kind, on the client's own connection.
            _ => {
                client.send(&["WATCH", "other"]).unwrap();
                write(&mut client, &["EVAL", SET, "0"]);
                client.send(&["UNWATCH"]).unwrap();
                replies = 3;
            }
        }
        // In the same pipeline.
        client.send(&["GET", &key]).unwrap();
        for _ in 0..replies {
            client.read().unwrap();
        }
        assert_eq!(client.read().unwrap(), Reply::bulk(&value), "round {round}");
    }
}

/// Redis does not announce it.
#[test]
fn swapped_databases_are_noticed() {
    let redis = RedisServer::start();
    let mut direct = redis.client();
    direct.command(&["SET", "k", "zero"]);
    direct.command(&["SELECT", "1"]);
    direct.command(&["SET", "k", "one"]);
    let larder = before(&redis, &["--threads", "2"]);
    let mut client = larder.client();
    let swap = "return redis.call('SW' .. 'APDB', 0, 1)";
    let values = [Reply::bulk("zero"), Reply::bulk("one")];
    for round in 0..6 {
        until_kept(&redis, &mut client, "k", &values[round % 2]);
        assert_eq!(client.command(&["EVAL", swap, "0"]), Reply::ok());
        assert_eq!(client.command(&["GET", "k"]), values[(round + 1) % 2], "round {round}");
    }
    // By another client of Redis.
    until_kept(&redis, &mut client, "k", &values[0]);
    assert_eq!(direct.command(&["SWAPDB", "0", "1"]), Reply::ok());
    wait_until("the swap to be noticed", || client.command(&["GET", "k"]) == values[1]);
}
