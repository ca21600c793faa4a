//! Commands that redis-server 7.0 lacks, through Larder to a server that has them (`make test-valkey`
//! runs this in front of a Valkey 9.1): the same replies, and no copy outlives a change.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::Larder,
};

/// What is there before, a read whose reply Larder may keep, and a newer command on the same key.
const COMMANDS: [(&str, &str, &str); 14] = [
    ("SET s 1", "GET s", "DELIFEQ s 1"),
    ("SET s 1", "GET s", "DELIFEQ s 2"),
    ("SET s 1", "GET s", "SET s 2 IFEQ 1"),
    ("SET s 1", "GET s", "MSETEX 2 s 5 t 6 EXAT 33000000000"),
    ("SET s 1", "GET s", "MSETEX 1 s 55 XX"),
    ("HSET h f v g w", "HGETALL h", "HSETEX h EXAT 33000000000 FIELDS 1 f x"),
    ("HSET h f v g w", "HGET h f", "HEXPIRE h 0 FIELDS 1 f"),
    ("HSET h f v g w", "HLEN h", "HPEXPIRE h 0 FIELDS 2 f none"),
    ("HSET h f v g w", "HGETALL h", "HEXPIREAT h 1 FIELDS 1 g"),
    ("HSET h f v g w", "HKEYS h", "HPEXPIREAT h 1 FIELDS 1 g"),
    ("HSET h f v g w", "HVALS h", "HGETDEL h FIELDS 1 f"),
    ("HSET h f v", "HGET h f", "HGETEX h EXAT 33000000000 FIELDS 1 f"),
    ("HSETEX h EXAT 33000000000 FIELDS 1 f v", "HEXPIRETIME h FIELDS 1 f", "HPERSIST h FIELDS 1 f"),
    (
        "HSETEX h EXAT 33000000000 FIELDS 1 f v",
        "HPEXPIRETIME h FIELDS 1 f",
        "HSETEX h PXAT 44000000000000 FIELDS 1 f v",
    ),
];

fn say(client: &mut Client, line: &str) -> Reply {
    client.command(&line.split(' ').collect::<Vec<_>>())
}

fn name(line: &str) -> String {
    line.split(' ').next().unwrap_or_default().to_lowercase()
}

#[test]
fn newer_commands_work_through_and_leave_no_copy_behind() {
    let (alone, behind) = (RedisServer::start(), RedisServer::start());
    let larder = Larder::start(&["--threads", "2", "--source", &behind.url()]);
    let (mut direct, mut other, mut through) = (alone.client(), behind.client(), larder.client());
    wait_until("the source to be connected", || say(&mut through, "SET k v") == Reply::ok());
    let is_newer = !matches!(say(&mut direct, "DELIFEQ none x"), Reply::Error(_));
    for (setup, read, newer) in COMMANDS {
        let reads_times = name(read).ends_with("expiretime");
        // Once through Larder, and once beside it.
        for is_beside in [false, true] {
            for client in [&mut direct, &mut other] {
                say(client, "FLUSHALL");
                say(client, setup);
            }
            let before = say(&mut direct, read);
            wait_until("the copies before to be gone", || say(&mut through, read) == before);
            if !reads_times {
                wait_until(&format!("{read} to be kept before {newer}"), || {
                    let calls = behind.calls(&name(read));
                    say(&mut through, read);
                    behind.calls(&name(read)) == calls
                });
            }
            let expected = say(&mut direct, newer);
            if is_newer {
                assert!(!matches!(expected, Reply::Error(_)), "{newer}: {expected:?}");
            }
            let got = if is_beside { say(&mut other, newer) } else { say(&mut through, newer) };
            assert_eq!(got, expected, "{newer}");
            let after = say(&mut direct, read);
            match is_beside {
                // The client that was answered sees its own change.
                false => assert_eq!(say(&mut through, read), after, "{read} after {newer}"),
                true => wait_until("the change to be seen", || say(&mut through, read) == after),
            }
        }
    }
    // Larder has these without a source. A server that lacks one refuses it when it is queued.
    for newer in ["INCREX s", "DELEX s", "DIGEST s", "DELIFEQ s x", "MSETEX 1 s v", "GET s"] {
        for line in ["MULTI", newer, "EXEC"] {
            assert_eq!(say(&mut through, line), say(&mut direct, line), "{line} of {newer} in a transaction");
        }
    }
}
