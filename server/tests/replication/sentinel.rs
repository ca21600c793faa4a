//! Redis Sentinel watches a pair: real redis-sentinel processes, a primary that is killed, and one that comes back.
use crate::{
    common::{Client, Port, Reply, wait_until},
    larder::Larder,
    workload::{Writes, info, replica_of, wait_for_equality, wait_for_link},
};
use rustix::process::Signal;
use std::{
    fs,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

struct Sentinel {
    child: Child,
    port: Port,
    _dir: TempDir,
}
impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

impl Sentinel {
    fn start(primary: u16) -> Sentinel {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sentinel.conf");
        let port = Port::free();
        let config = format!(
            "port {}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds main 3000\nsentinel failover-timeout main 20000\n",
            port.number
        );
        fs::write(&file, config).unwrap();
        let mut redis = Command::new("redis-server");
        redis.arg(&file).arg("--sentinel").current_dir(dir.path());
        redis.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = redis.spawn().expect("redis-server is installed");
        Sentinel { child, port, _dir: dir }
    }

    /// The fields of its first answer to a question about the pair.
    fn ask(&self, about: &str) -> Option<Vec<Reply>> {
        let answer = Client::connect(self.port.number).ok()?.try_command(&["SENTINEL", about, "main"]).ok()?;
        match answer {
            Reply::Array(Some(fields)) => match fields.first() {
                Some(Reply::Array(Some(first))) => Some(first.clone()),
                Some(_) => Some(fields),
                None => None,
            },
            _ => None,
        }
    }
    fn field(&self, about: &str, name: &str) -> Option<String> {
        let fields = self.ask(about)?;
        let value = &fields.chunks(2).find(|pair| pair[0] == Reply::bulk(name))?[1];
        match value {
            Reply::Bulk(Some(text)) => String::from_utf8(text.clone()).ok(),
            _ => None,
        }
    }
    fn primary(&self) -> Option<Reply> {
        self.ask("get-master-addr-by-name")?.get(1).cloned()
    }
}

#[test]
fn sentinels_promote_a_replica_and_bring_the_old_primary_back_as_one() {
    let mut primary = Larder::start(&[]);
    let (first, second) = (replica_of(primary.redis, &[]), replica_of(primary.redis, &[]));
    let mut writes = Writes::new(8, 100);
    writes.run(&primary, 1000, false);
    wait_for_equality(&primary, &first);
    wait_for_equality(&primary, &second);
    let sentinels: Vec<Sentinel> = (0..3).map(|_| Sentinel::start(primary.redis)).collect();
    for sentinel in &sentinels {
        let sees = |name: &str, wanted: &str| sentinel.field("master", name).as_deref() == Some(wanted);
        wait_until("the Sentinels to find each other and the replicas", || {
            sees("num-slaves", "2") && sees("num-other-sentinels", "2") && sees("flags", "master")
        });
        wait_until("a replica to be well", || sentinel.field("replicas", "flags").as_deref() == Some("slave"));
    }
    primary.signal(Signal::KILL);
    primary.wait();
    let promoted = || [&first, &second].into_iter().find(|larder| info(larder, "role").as_deref() == Some("master"));
    wait_until("a replica to be promoted", || promoted().is_some());
    let new = promoted().unwrap();
    let other = if std::ptr::eq(new, &first) { &second } else { &first };
    for sentinel in &sentinels {
        wait_until("the Sentinels to name it", || sentinel.primary() == Some(Reply::bulk(new.redis.to_string())));
    }
    writes.run(new, 500, false);
    wait_until("the other to follow it", || info(other, "master_port") == Some(new.redis.to_string()));
    wait_for_equality(new, other);
    // The old primary comes back as one, and is made a replica.
    primary.start_again(&[]);
    wait_until("the old primary to follow", || info(&primary, "role").as_deref() == Some("slave"));
    wait_for_link(&primary);
    wait_for_equality(new, &primary);
}
