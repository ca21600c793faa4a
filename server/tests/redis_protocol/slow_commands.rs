//! Commands that keep Redis busy for longer than `source-timeout`: other clients wait, as they
//! would at Redis itself.
use super::{
    common::{RedisServer, Reply, wait_until},
    larder::Larder,
};

/// Members of each set: the command takes several times `source-timeout`.
const MEMBERS: &str = "300000";

#[test]
fn others_wait_while_a_slow_command_runs() {
    let redis = RedisServer::start();
    let fill = "local t = {} for i = 1, tonumber(ARGV[1]) do t[#t + 1] = i t[#t + 1] = 'm' .. i \
                if #t >= 4000 then redis.call('ZADD', KEYS[1], unpack(t)) t = {} end end";
    for key in ["z1", "z2"] {
        assert_eq!(redis.command(&["EVAL", fill, "1", key, MEMBERS]), Reply::nil());
    }
    let larder = Larder::start(&["--threads", "2", "--source", &redis.url(), "--source-timeout", "100ms"]);
    let mut other = larder.client();
    wait_until("the source to be connected", || other.command(&["INCR", "n"]) == Reply::Int(1));
    let slow: [&[&str]; 3] = [
        &["ZUNIONSTORE", "to", "4", "z1", "z2", "z1", "z2"],
        &["SORT", "z1", "BY", "nosort", "GET", "none*", "STORE", "sorted"],
        &["COPY", "to", "copy"],
    ];
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
    }
}
