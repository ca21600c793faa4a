//! Larder's own users: what each command of the table is refused, how logins and changes of users
//! take effect, ACL beside a redis-server.
use super::{
    Redis,
    support::{Client, Server, runtime},
};
use crate::{
    command::{Command, Flags},
    command_lookup::COMMANDS,
};

const NO_KEY: &str = "-NOPERM No permissions to access a key\r\n";

/// A call with the fewest arguments, each of which is `key`.
fn call(command: &Command, key: &str) -> String {
    let parts = usize::from(command.arity.unsigned_abs()).max(1 + usize::from(command.is_sub));
    // One more key where the command takes any number, for the last one counts too.
    let name = command.name.replace('|', " ");
    let words = name.split(' ').count();
    let line = format!("{name}{}", format!(" {key}").repeat(parts - words));
    if command.keys.are_counted() { line.replacen(key, "1", 1) } else { line }
}

fn refused(name: &str) -> String {
    format!("-NOPERM User u has no permissions to run the '{name}' command\r\n")
}

/// A client that is user `u` with these rules.
fn user<'s>(server: &'s Server, rules: &str) -> Client<'s> {
    let mut admin = server.client();
    assert_eq!(admin.say(&format!("ACL SETUSER u reset on nopass {rules}")), "+OK\r\n", "{rules}");
    let mut client = server.client();
    assert_eq!(client.say("AUTH u x"), "+OK\r\n");
    client
}

#[test]
fn each_command_is_refused_to_a_user_without_it() {
    let server = Server::new(&[]);
    for command in COMMANDS.iter().filter(|command| !command.is_parent) {
        let is_for_all = command.flags.has(Flags::NO_AUTH) && !command.flags.has(Flags::ADMIN);
        for rules in [format!("~* &* +@all -{}", command.name), "~* &* -@all".to_owned()] {
            let line = call(command, "k");
            let mut client = user(&server, &rules);
            if is_for_all {
                assert!(!client.say(&line).starts_with("-NOPERM"), "{line}");
                continue;
            }
            let expected = match command.name {
                // A refused EXEC ends the transaction, as in Redis.
                "exec" => "-EXECABORT Transaction discarded because of: ".to_owned() + &refused("exec")[1..],
                name => refused(name),
            };
            assert_eq!(client.say(&line), expected, "{line} with {rules}");
            // In a transaction too, which is then given up.
            let mut client = user(&server, &rules.replace("-@all", "-@all +multi +exec"));
            if !matches!(command.name, "multi" | "exec" | "discard" | "watch" | "unwatch") {
                assert_eq!(client.say("MULTI"), "+OK\r\n");
                assert!(client.say(&line).starts_with('-'), "{line}");
                assert!(client.say("EXEC").starts_with("-EXECABORT"), "{line}");
            }
        }
    }
}

#[test]
fn each_command_is_refused_a_key_that_the_user_may_not_touch() {
    let server = Server::new(&[]);
    let mut seen = 0;
    let with_keys = |command: &&Command| !command.is_parent && command.keys.first > 0;
    for command in COMMANDS.iter().filter(with_keys) {
        let line = call(command, "secret");
        assert_eq!(user(&server, "+@all ~mine").say(&line), NO_KEY, "{line}");
        // One of several keys is enough.
        let keys = command.keys;
        if keys.last != 1 && !command.is_sub && command.arity < 0 {
            let first = call(command, "mine");
            let step = usize::from(keys.step);
            let more = " secret".repeat(step.max(1) + usize::from(keys.last < -1));
            let line = format!("{first}{more}");
            let line = if keys.are_counted() { line.replacen(" 1 ", " 2 ", 1) } else { line };
            if !matches!(command.name, "copy") {
                assert_eq!(user(&server, "+@all ~mine").say(&line), NO_KEY, "{line}");
            }
        }
        let mut client = user(&server, "+@all ~mine");
        client.say("MULTI");
        assert!(client.say(&line).starts_with('-'), "{line}");
        assert!(client.say("EXEC").starts_with("-EXECABORT"), "{line}");
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
    // A command on whatever carries a tag needs all keys.
    assert_eq!(user(&server, "+@all ~mine").say("LARDER.CLEARTAG t"), NO_KEY);
    assert_eq!(user(&server, "+@all ~*").say("LARDER.CLEARTAG t"), ":0\r\n");
}

/// What the reply tells of a value is a read.
#[test]
fn a_condition_on_a_value_needs_the_right_to_read_it() {
    let server = Server::new(&[]);
    for (line, may_write, may_do_both) in [
        ("SET k v", "+OK\r\n", "+OK\r\n"),
        ("SET k v GET", NO_KEY, "$1\r\nv\r\n"),
        ("SET k v IFEQ v", NO_KEY, "+OK\r\n"),
        ("SET k v EX 10 ifne v", NO_KEY, "$-1\r\n"),
        ("SET k v IFDEQ 0123456789abcdef", NO_KEY, "$-1\r\n"),
        ("SET k v IFDNE 0123456789abcdef", NO_KEY, "+OK\r\n"),
        ("MSETEX 1 k v", ":1\r\n", ":1\r\n"),
        ("DELEX k IFEQ x", NO_KEY, ":0\r\n"),
        ("DELIFEQ k x", NO_KEY, ":0\r\n"),
        ("INCREX k", NO_KEY, "-ERR value is not an integer or out of range\r\n"),
    ] {
        assert_eq!(user(&server, "+@all %W~k").say(line), may_write, "{line}");
        assert_eq!(user(&server, "+@all ~k").say(line), may_do_both, "{line}");
    }
}

#[test]
fn plain_gets_in_a_row_are_checked_one_by_one() {
    let server = Server::new(&[]);
    server.client().say("MSET a:1 one b:1 two");
    let mut client = user(&server, "+get ~a:*");
    let gets = b"*2\r\n$3\r\nGET\r\n$3\r\na:1\r\n*2\r\n$3\r\nGET\r\n$3\r\nb:1\r\n*2\r\n$3\r\nGET\r\n$3\r\na:1\r\n";
    let replies = String::from_utf8(client.raw(gets)).expect("text");
    assert_eq!(replies, format!("$3\r\none\r\n{NO_KEY}$3\r\none\r\n"));
}

#[test]
fn logins_take_effect_between_pipelined_commands() {
    let server = Server::new(&["--password", "main"]);
    let mut admin = server.client();
    assert_eq!(admin.say("GET k"), "-NOAUTH Authentication required.\r\n");
    assert_eq!(admin.say("AUTH wrong"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    assert_eq!(admin.say("AUTH main"), "+OK\r\n");
    assert_eq!(admin.say("ACL SETUSER reader on >r ~r:* +get +acl|whoami +multi +exec +reset +hello"), "+OK\r\n");
    assert_eq!(admin.say("ACL SETUSER off >x ~* +@all"), "+OK\r\n");
    let mut client = server.client();
    let pipeline = b"GET k\r\nAUTH reader r\r\nACL WHOAMI\r\nGET r:1\r\nGET k\r\nSET r:1 v\r\nAUTH main\r\nSET k v\r\nACL WHOAMI\r\n";
    let replies = String::from_utf8(client.raw(pipeline)).expect("text");
    let expected = format!(
        "-NOAUTH Authentication required.\r\n+OK\r\n$6\r\nreader\r\n$-1\r\n{NO_KEY}-NOPERM User reader has no permissions to run the \
         'set' command\r\n+OK\r\n+OK\r\n$7\r\ndefault\r\n"
    );
    assert_eq!(replies, expected);
    // A failed login changes nothing, with HELLO either.
    assert_eq!(client.say("AUTH reader r"), "+OK\r\n");
    assert!(client.say("AUTH main2").starts_with("-WRONGPASS"));
    assert!(client.say("HELLO 3 AUTH reader wrong").starts_with("-WRONGPASS"));
    assert!(client.say("AUTH off x").starts_with("-WRONGPASS"));
    assert!(client.say("AUTH nobody x").starts_with("-WRONGPASS"));
    assert_eq!(client.say("ACL WHOAMI"), "$6\r\nreader\r\n");
    // AUTH within MULTI is queued; what the user may not do is refused before.
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    assert_eq!(client.say("AUTH main"), "+QUEUED\r\n");
    assert_eq!(client.say("SET k v"), "-NOPERM User reader has no permissions to run the 'set' command\r\n");
    assert!(client.say("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.say("ACL WHOAMI"), "$6\r\nreader\r\n");
    // RESET logs out.
    assert_eq!(client.say("RESET"), "+RESET\r\n");
    assert_eq!(client.say("GET r:1"), "-NOAUTH Authentication required.\r\n");
    assert!(client.say("HELLO 3 AUTH reader r").contains("proto"));
    assert_eq!(client.say("ACL WHOAMI"), "$6\r\nreader\r\n");
}

#[test]
fn too_many_failed_logins_have_to_wait() {
    let server = Server::new(&["--password", "main"]);
    let mut client = server.client();
    for _ in 0..20 {
        assert!(client.say("AUTH guess").starts_with("-WRONGPASS invalid"));
    }
    let told = client.say("AUTH main");
    assert!(told.starts_with("-WRONGPASS too many failed logins from this address: wait "), "{told}");
}

#[test]
fn wrong_replication_secrets_have_to_wait_and_keep_out_no_logins() {
    let server = Server::new(&["--replication-secret=right", "--password=main"]);
    let replicate = |secret| server.client().say(&format!("LARDER.REPLICATE 1 {secret} 1 1 x"));
    for _ in 0..20 {
        assert_eq!(replicate("guess"), "-WRONGPASS the secret is not replication-secret of this primary\r\n");
    }
    for secret in ["guess", "right"] {
        let reply = replicate(secret);
        assert!(reply.starts_with("-WRONGPASS too many failed logins from this address"), "{reply}");
    }
    assert_eq!(server.client().say("AUTH main"), "+OK\r\n");
    let logged = &server.worker.app.users.log().latest(1)[0];
    assert_eq!((&*logged.object, logged.count), (&b"LARDER.REPLICATE"[..], 20));
    assert_eq!(server.worker.counters.failed_logins.get(), 20);
}

#[test]
fn no_command_shows_other_keys_to_a_user_of_some() {
    let server = Server::new(&[]);
    let mut other = user_named(&server, "other", "+@all ~b:* &*");
    other.say("SET b:qxqx xqxq");
    other.say("GET b:qxqx");
    other.say("GET qxqx");
    server.client().say("SET a:1 mine");
    // What clients do with keys is for those who may read any.
    for line in ["MONITOR", "SLOWLOG GET", "HOTKEYS GET", "ACL LOG"] {
        assert_eq!(user_named(&server, "limited", "+@all ~a:* &*").say(line), NO_KEY, "{line}");
        assert!(!user_named(&server, "reader", "+@all %R~* &*").say(line).starts_with("-NOPERM"), "{line}");
    }
    // As in Redis, they name keys and no values.
    let lists = ["keys", "randomkey", "scan"];
    // They end the process or the connection, change what the others see, or need a whole process.
    let left_out = [
        "acl|setuser",
        "client|kill",
        "client|pause",
        "client|reply",
        "flushall",
        "flushdb",
        "larder.explain",
        "larder.replicate",
        "quit",
        "shutdown",
    ];
    for command in COMMANDS.iter().filter(|command| !command.is_parent && !left_out.contains(&command.name)) {
        for key in ["a:1", "b:qxqx", "*", "0"] {
            let line = call(command, key);
            let mut client = user_named(&server, "limited", "+@all ~a:* &*");
            let reply = runtime().block_on(client.ask(&line));
            let reply = reply.replace(&line, "").replace(key, "");
            let names_keys = lists.contains(&command.name) || key == "b:qxqx";
            assert!(!reply.contains("xqxq") && (names_keys || !reply.contains("qxqx")), "{line}: {reply}");
        }
    }
}

#[test]
fn changed_and_deleted_users_are_changed_at_once() {
    let server = Server::new(&[]);
    let mut admin = server.client();
    let mut client = user(&server, "~* +get +set +multi +exec");
    assert_eq!(client.say("SET k v"), "+OK\r\n");
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    assert_eq!(client.say("SET k w"), "+QUEUED\r\n");
    assert_eq!(admin.say("ACL SETUSER u -set"), "+OK\r\n");
    let aborted = client.say("EXEC");
    assert!(aborted.starts_with("-EXECABORT") && aborted.contains("ACLs rules changed"), "{aborted}");
    assert_eq!(client.say("GET k"), "$1\r\nv\r\n");
    assert_eq!(client.say("SET k w"), refused("set"));
    assert_eq!(admin.say("ACL SETUSER u resetkeys ~x"), "+OK\r\n");
    assert_eq!(client.say("GET k"), NO_KEY);
    // A user that is off keeps its open connections, as with Redis.
    assert_eq!(admin.say("ACL SETUSER u off"), "+OK\r\n");
    assert_eq!(client.say("GET x"), "$-1\r\n");
    assert_eq!(admin.say("ACL DELUSER u nobody"), ":1\r\n");
    assert_eq!(client.session.client.closing(), Some(larder_core::clients::Closing::Now));
    assert_eq!(client.say("GET x"), "-NOAUTH Authentication required.\r\n");
    assert!(admin.say("ACL DELUSER default").starts_with("-ERR The 'default' user cannot be removed"));
    // One of the same name is another user.
    let mut client = user(&server, "~* &* +@all");
    assert_eq!(admin.say("ACL DELUSER u"), ":1\r\n");
    assert_eq!(admin.say("ACL SETUSER u on nopass ~* &* +@all"), "+OK\r\n");
    assert_eq!(client.say("GET x"), "-NOAUTH Authentication required.\r\n");
    // Who deletes its own user gets the reply first.
    let mut client = user(&server, "~* &* +@all");
    assert_eq!(client.say("ACL DELUSER u"), ":1\r\n");
    assert!(client.closed);
}

#[test]
fn a_reload_keeps_users_that_no_file_has() {
    let server = Server::new(&[]);
    let mut client = user(&server, "~* &* +@all");
    server.worker.app.reload_users().expect("there is no file");
    assert_eq!(client.session.client.closing(), None);
    assert_eq!(client.say("ACL WHOAMI"), "$1\r\nu\r\n");
}

#[test]
fn subscribers_who_may_hear_less_are_closed() {
    let server = Server::new(&[]);
    let mut admin = server.client();
    let mut client = user(&server, "&a* +subscribe +psubscribe");
    assert!(client.say("SUBSCRIBE ab").contains("subscribe"));
    let mut other = user_named(&server, "other", "&b* +subscribe");
    assert!(other.say("SUBSCRIBE b").contains("subscribe"));
    assert_eq!(client.say("SUBSCRIBE b"), "-NOPERM No permissions to access a channel\r\n");
    assert_eq!(client.say("PSUBSCRIBE ab*"), "-NOPERM No permissions to access a channel\r\n");
    assert_eq!(admin.say("ACL SETUSER u +get"), "+OK\r\n");
    assert_eq!(client.session.client.closing(), None);
    assert_eq!(admin.say("ACL SETUSER u resetchannels"), "+OK\r\n");
    assert_eq!(client.session.client.closing(), Some(larder_core::clients::Closing::Now));
    assert_eq!(other.session.client.closing(), None);
}

fn user_named<'s>(server: &'s Server, name: &str, rules: &str) -> Client<'s> {
    assert_eq!(server.client().say(&format!("ACL SETUSER {name} reset on nopass {rules}")), "+OK\r\n");
    let mut client = server.client();
    assert_eq!(client.say(&format!("AUTH {name} x")), "+OK\r\n");
    client
}

#[test]
fn deny_commands_holds_for_each_user() {
    let server = Server::new(&["--deny-commands", "@dangerous"]);
    let mut admin = server.client();
    // ACL SETUSER is dangerous itself; the users come from a file then.
    assert!(admin.say("ACL SETUSER u on nopass +@all ~* &*").starts_with("-NOPERM this listener"));
    assert!(admin.say("FLUSHALL").starts_with("-NOPERM this listener"));
}

#[test]
fn users_come_from_the_file_and_go_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("users.acl");
    let argon2 = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$";
    let hash = hash_of(argon2, b"slow");
    std::fs::write(
        &file,
        format!("# those of the tests\nuser default off\n\nuser a on >one ~a:* +@all\nuser b on #{hash} ~* +get\n"),
    )
    .expect("written");
    let file_setting = file.display().to_string();
    let server = Server::new(&["--users-file", &file_setting]);
    let mut client = server.client();
    assert_eq!(client.say("GET k"), "-NOAUTH Authentication required.\r\n");
    assert!(client.say("AUTH x").starts_with("-WRONGPASS"));
    assert_eq!(client.say("AUTH a one"), "+OK\r\n");
    assert_eq!(client.say("SET a:1 v"), "+OK\r\n");
    runtime().block_on(async {
        let mut slow = server.client();
        assert!(slow.ask("AUTH b wrong").await.starts_with("-WRONGPASS"));
        assert_eq!(slow.ask("GET a:1").await, "-NOAUTH Authentication required.\r\n");
        assert_eq!(slow.ask("AUTH b slow").await, "+OK\r\n");
        assert_eq!(slow.ask("GET a:1").await, "$1\r\nv\r\n");
        let mut slow = server.client();
        assert!(slow.ask("HELLO 3 AUTH b wrong").await.starts_with("-WRONGPASS"));
        assert!(slow.ask("HELLO 3 AUTH b slow").await.contains("proto"));
        assert_eq!(slow.ask("GET a:1").await, "$1\r\nv\r\n");
    });
    assert_eq!(client.say("ACL SETUSER c on >two +get"), "+OK\r\n");
    assert_eq!(client.say("ACL SAVE"), "+OK\r\n");
    let text = std::fs::read_to_string(&file).expect("readable");
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(!text.contains("two") && text.contains("user c on #"), "{text}");
    assert!(text.contains(&format!("user b on #{hash} ~* resetchannels -@all +get")), "{text}");
    // What is wrong changes nothing and shows no password.
    std::fs::write(&file, "user a on >hunter2 +nonsense\nuser d on <hunter2\n").expect("written");
    let told = client.say("ACL LOAD");
    assert!(told.contains("users.acl:1: user a: `+nonsense`: Unknown command") && told.contains(":2:"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
    assert_eq!(client.say("ACL USERS"), "*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$7\r\ndefault\r\n");
    std::fs::write(&file, "user a on >one ~* +@all\n").expect("written");
    assert_eq!(client.say("ACL LOAD"), "+OK\r\n");
    assert_eq!(client.say("ACL USERS"), "*2\r\n$1\r\na\r\n$7\r\ndefault\r\n");
    assert_eq!(client.say("SET b v"), "+OK\r\n");
}

fn hash_of(parameters: &str, password: &[u8]) -> String {
    use argon2::{Algorithm, Argon2, Params, Version};
    use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
    let mut hash = [0; 32];
    let params = Params::new(64, 1, 1, Some(32)).expect("parameters");
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(password, b"somesalt", &mut hash).expect("a hash");
    format!("{parameters}{}", STANDARD_NO_PAD.encode(hash))
}

#[test]
fn acl_commands_answer_as_redis_does() {
    let redis = Redis::start();
    let mut direct = redis.connect();
    let server = Server::new(&[]);
    let mut ours = server.client();
    for line in [
        "ACL WHOAMI",
        "ACL USERS",
        "ACL LIST",
        "ACL GETUSER default",
        "ACL GETUSER nobody",
        "ACL SETUSER a",
        "ACL GETUSER a",
        "ACL SETUSER a on >p ~a:* %R~b:* &c*",
        "ACL GETUSER a",
        "ACL SETUSER a (+set ~z*) (+get %W~y)",
        "ACL GETUSER a",
        "ACL LIST",
        "ACL SETUSER a >p >q",
        "ACL SETUSER a <p",
        "ACL SETUSER a <p",
        "ACL SETUSER a clearselectors resetkeys nopass skip-sanitize-payload",
        "ACL GETUSER a",
        "ACL LIST",
        "ACL SETUSER a +foo",
        "ACL SETUSER a +@foo",
        "ACL SETUSER a xx",
        "ACL SETUSER a (+get",
        "ACL SETUSER a ~* ~x",
        "ACL SETUSER a &* &x",
        "ACL SETUSER a #12",
        "ACL SETUSER a +config|foo",
        "ACL SETUSER a -get|x",
        "ACL SETUSER a reset",
        "ACL GETUSER a",
        "ACL SETUSER b on nopass allkeys allchannels allcommands",
        "ACL LIST",
        "ACL DRYRUN b get x",
        "ACL DRYRUN nobody get x",
        "ACL DRYRUN b nonsense x",
        "ACL DRYRUN b get",
        "ACL DELUSER b nobody",
        "ACL DELUSER b",
        "ACL DELUSER default",
        "ACL USERS",
        "ACL CAT nonsense",
        "ACL LOG",
        "ACL LOG RESET",
        "ACL LOG x",
        "ACL GENPASS 0",
        "ACL GENPASS 4097",
        "ACL GENPASS x",
        "ACL NONSENSE",
        "ACL",
        "ACL WHOAMI x",
        "CLIENT KILL USER nobody",
    ] {
        assert_eq!(ours.say(line), direct.say(line), "{line}");
    }
    for bits in ["", " 1", " 5", " 8", " 4096"] {
        let line = format!("ACL GENPASS{bits}");
        let (one, other) = (ours.say(&line), direct.say(&line));
        assert_eq!(one.len(), other.len(), "{line}");
    }
    // In RESP3 too.
    assert!(direct.say("HELLO 3").contains("proto") && ours.say("HELLO 3").contains("proto"));
    for line in ["ACL SETUSER a on >p ~a (+get)", "ACL GETUSER a", "ACL GETUSER nobody"] {
        assert_eq!(ours.say(line), direct.say(line), "{line}");
    }
    // Redis's older tables know fewer categories.
    let all = ours.say("ACL CAT");
    for category in direct.say("ACL CAT").lines().skip(2).step_by(2) {
        assert!(all.contains(&format!("\r\n{category}\r\n")), "{category}");
    }
    assert!(ours.say("ACL CAT scripting").contains("function|flush"));
}

#[test]
fn refusals_and_failed_logins_are_in_the_log() {
    let server = Server::new(&[]);
    let mut admin = server.client();
    let mut client = user(&server, "~a &a +get +subscribe +multi");
    client.say("SET a v");
    client.say("GET b");
    client.say("GET b");
    client.say("SUBSCRIBE c");
    client.say("AUTH u2 secret");
    client.say("MULTI");
    client.say("SET a v");
    let log = admin.say("ACL LOG");
    assert!(log.starts_with("*5\r\n"), "{log}");
    for part in [
        "$7\r\ncontext\r\n$5\r\nmulti\r\n$6\r\nobject\r\n$3\r\nset\r\n$8\r\nusername\r\n$1\r\nu\r\n",
        "$4\r\nauth\r\n$7\r\ncontext\r\n$8\r\ntoplevel\r\n$6\r\nobject\r\n$4\r\nAUTH\r\n$8\r\nusername\r\n$2\r\nu2\r\n",
        "$5\r\ncount\r\n:2\r\n$6\r\nreason\r\n$3\r\nkey\r\n$7\r\ncontext\r\n$8\r\ntoplevel\r\n$6\r\nobject\r\n$1\r\nb\r\n",
        "$7\r\nchannel\r\n",
        "user=u ",
    ] {
        assert!(log.contains(part), "{part}\n{log}");
    }
    assert!(!log.contains("secret"));
    assert!(admin.say("ACL LOG 1").starts_with("*1\r\n"));
    assert_eq!(admin.say("ACL LOG RESET"), "+OK\r\n");
    assert_eq!(admin.say("ACL LOG"), "*0\r\n");
}
