//! A master, its replica, and three Sentinels that watch them.
use super::{
    common::{Client, Port, RedisServer, Reply, wait_until},
    larder::Larder,
    sentinel::{Sentinel, Watched},
};

/// A silence, milliseconds, that no busy machine makes: a master that is well is not replaced.
const PATIENT: u32 = 60_000;

/// A Sentinel with the master's password.
pub(crate) fn start(master: &RedisServer) -> Sentinel {
    Sentinel::start(&Watched { port: master.port(), password: Some("secret"), silence: PATIENT, failover: 5000 })
}

/// Asks a server that may be closing connections: Sentinels have one do so that has a new role.
fn ask(server: &RedisServer, command: &[&str]) -> Reply {
    let mut client = Client::connect(server.port()).unwrap();
    let asked = client.try_command(&["AUTH", "secret"]).and_then(|_| client.try_command(command));
    asked.unwrap_or_else(|error| Reply::Error(error.to_string()))
}

#[test]
fn the_master_is_the_one_that_sentinels_name() {
    let secret = ["--requirepass", "secret", "--masterauth", "secret", "--repl-diskless-sync-delay", "0"];
    let mut master = RedisServer::with(&secret);
    let port = master.port().to_string();
    let replica = RedisServer::with(&[&secret[..], &["--replicaof", "127.0.0.1", &port]].concat());
    let sentinels = [(); 3].map(|()| start(&master));
    wait_until("the Sentinels to know all", || {
        let knows = |sentinel: &Sentinel| {
            sentinel.master("num-slaves").as_deref() == Some("1")
                && sentinel.master("num-other-sentinels").as_deref() == Some("2")
        };
        sentinels.iter().all(knows)
    });
    // One of the addresses leads nowhere.
    let nobody = Port::free();
    let url = format!(
        "redis+sentinel://:secret@127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}/main?sentinel-password=watch",
        nobody.number, sentinels[0].port.number, sentinels[1].port.number
    );
    let larder = Larder::start(&["--source", &url, "--threads", "2"]);
    wait_until("the master to be connected", || larder.metric("larder_source_up{group=\"default\"}") == 1.0);
    let mut client = larder.client();
    assert_eq!(client.command(&["SET", "k", "1"]), Reply::ok());
    assert_eq!(master.command(&["GET", "k"]), Reply::bulk("1"));
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("1"));
    assert_eq!(master.client().command(&["WAIT", "1", "10000"]).int(), 1);

    // Frozen, it is replaced, and comes back as one that does not know it yet.
    master.stop();
    sentinels.iter().for_each(|sentinel| sentinel.allow_silence("500"));
    let told_off = |text: &str| text.starts_with("ERR source unavailable: ") || text.starts_with("READONLY ");
    wait_until("the replica to take over", || match client.command(&["SET", "k", "2"]) {
        Reply::Error(text) => {
            assert!(told_off(&text), "{text}");
            false
        }
        reply => reply == Reply::ok(),
    });
    sentinels.iter().for_each(|sentinel| sentinel.allow_silence(&PATIENT.to_string()));
    assert_eq!(replica.command(&["GET", "k"]), Reply::bulk("2"));
    master.cont();
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("2"));
    replica.command(&["SET", "k", "3"]);
    wait_until("the change to be seen", || client.command(&["GET", "k"]) == Reply::bulk("3"));

    // Back again, in peace.
    wait_until("the old master to follow", || {
        let Reply::Array(Some(role)) = ask(&master, &["ROLE"]) else { return false };
        role[0] == Reply::bulk("slave") && role[3] == Reply::bulk("connected")
    });
    wait_until("a failover to be allowed", || sentinels[0].command(&["SENTINEL", "FAILOVER", "main"]) == Reply::ok());
    wait_until("writes at the old master", || {
        client.command(&["SET", "k", "4"]) == Reply::ok() && ask(&master, &["GET", "k"]) == Reply::bulk("4")
    });
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("4"));
    master.kill();
}

#[test]
fn why_there_is_no_master_is_said() {
    let server = RedisServer::start();
    let url = format!("redis+sentinel://127.0.0.1:{}/main", server.port());
    let larder = Larder::start(&["--source", &url, "--source-timeout", "200ms"]);
    let mut client = larder.client();
    wait_until("the reason", || {
        let reply = client.command(&["GET", "k"]);
        reply.error() == "ERR source unavailable: no Sentinel names a master for `main`"
    });
    let url = format!("redis+cluster://127.0.0.1:{}", server.port());
    let larder = Larder::start(&["--source", &url, "--source-timeout", "200ms"]);
    let mut client = larder.client();
    wait_until("the reason", || {
        let reply = client.command(&["GET", "k"]);
        reply.error() == "ERR source unavailable: ERR This instance has cluster support disabled"
    });
}
