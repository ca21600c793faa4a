//! A Redis Sentinel of the test's own, which watches a master under the name `main`.
use super::common::{Client, Port, Reply, redis_server, wait_until};
use std::{
    fs,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// What a Sentinel watches, and how.
#[derive(Debug, Default)]
pub struct Watched {
    /// The master's port.
    pub port: u16,
    /// The master's password, if it has one. The Sentinels have the password `watch` then.
    pub password: Option<&'static str>,
    /// How long the master may be silent, ms.
    pub silence: u32,
    /// How long a failover may take, ms.
    pub failover: u32,
}

/// A Sentinel that is ready when made, and killed when dropped.
pub struct Sentinel {
    child: Child,
    pub port: Port,
    is_protected: bool,
    _dir: TempDir,
}
impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

impl Sentinel {
    pub fn start(watched: &Watched) -> Sentinel {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sentinel.conf");
        let port = Port::free();
        let Watched { port: master, password, silence, failover } = watched;
        let mut config = format!(
            "port {}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds main {silence}\nsentinel failover-timeout main {failover}\n",
            port.number
        );
        if let Some(password) = password {
            config += &format!("requirepass watch\nsentinel sentinel-pass watch\nsentinel auth-pass main {password}\n");
        }
        fs::write(&file, config).unwrap();
        let mut redis = Command::new(redis_server());
        redis.arg(&file).arg("--sentinel").current_dir(dir.path());
        redis.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = redis.spawn().expect("redis-server is installed");
        let mut sentinel = Sentinel { child, port, is_protected: password.is_some(), _dir: dir };
        wait_until("a Sentinel to answer", || {
            assert_eq!(sentinel.child.try_wait().unwrap(), None, "a Sentinel ends");
            matches!(sentinel.try_command(&["PING"]), Some(Reply::Simple(_)))
        });
        sentinel
    }

    /// The reply to a command on a connection of its own; `None`: there is no connection.
    fn try_command(&self, args: &[&str]) -> Option<Reply> {
        let mut client = Client::connect(self.port.number).ok()?;
        if self.is_protected {
            client.try_command(&["AUTH", "watch"]).ok()?;
        }
        client.try_command(args).ok()
    }
    pub fn command(&self, args: &[&str]) -> Reply {
        self.try_command(args).expect("a Sentinel answers")
    }

    /// How long the master may be silent from now on, milliseconds.
    pub fn allow_silence(&self, milliseconds: &str) {
        let set = self.command(&["SENTINEL", "SET", "main", "down-after-milliseconds", milliseconds]);
        assert_eq!(set, Reply::ok());
    }

    /// A field of what it says of the master.
    pub fn master(&self, field: &str) -> Option<String> {
        value(self.try_command(&["SENTINEL", "MASTER", "main"])?, field)
    }
    /// The same of the first replica.
    pub fn replica(&self, field: &str) -> Option<String> {
        match self.try_command(&["SENTINEL", "REPLICAS", "main"])? {
            Reply::Array(Some(replicas)) => value(replicas.into_iter().next()?, field),
            _ => None,
        }
    }
    /// The port of the server that it takes for the master.
    pub fn port_of_master(&self) -> Option<u16> {
        match self.try_command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"])? {
            Reply::Array(Some(address)) => text(address.get(1)?)?.parse().ok(),
            _ => None,
        }
    }
}

/// The value of a field among fields and values.
fn value(fields: Reply, field: &str) -> Option<String> {
    let Reply::Array(Some(fields)) = fields else { return None };
    text(&fields.chunks(2).find(|pair| pair[0] == Reply::bulk(field))?[1])
}
fn text(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Bulk(Some(text)) => String::from_utf8(text.clone()).ok(),
        _ => None,
    }
}
