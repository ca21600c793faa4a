//! Nodes of Cassandra of the tests' own, from the jars of `tests/cassandra` in `.deps`.
use crate::common::Port;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use scylla::{
    client::{session::Session, session_builder::SessionBuilder},
    value::Row,
};
use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A start takes 15 s on an idle machine, and many times that on a busy one.
const PATIENCE: Duration = Duration::from_secs(300);

/// Like `wait_until`, for states of a cluster: on a busy machine they take long.
pub fn wait_for_cluster(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A node: of a cluster of its own, with the superuser `cassandra`, whose password is his name, or
/// one of three. Ready when made, killed when dropped.
pub struct CassandraNode {
    child: Child,
    host: String,
    ports: Arc<Ports>,
    dir: TempDir,
    runtime: tokio::runtime::Runtime,
}

/// The ports of all nodes of a cluster, each of which has an address of its own.
struct Ports {
    native: Port,
    storage: Port,
    tls_storage: Port,
}
impl Ports {
    fn free() -> Ports {
        Ports { native: Port::free(), storage: Port::free(), tls_storage: Port::free() }
    }
}

impl CassandraNode {
    /// The node that tests of this process share while one of them has it: a start takes long.
    pub fn shared() -> Arc<CassandraNode> {
        static SHARED: Mutex<Weak<CassandraNode>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shared.upgrade().unwrap_or_else(|| {
            let node = Arc::new(CassandraNode::start());
            *shared = Arc::downgrade(&node);
            node
        })
    }

    pub fn start() -> CassandraNode {
        let mut node = CassandraNode::spawn(1, 1, &Arc::new(Ports::free()));
        node.wait_until_ready();
        node
    }

    /// A cluster of three nodes on 127.0.0.1 to 127.0.0.3. It lets in who names no user: a node that
    /// is away may be the one that knows them.
    pub fn three() -> Vec<CassandraNode> {
        loop {
            let ports = Arc::new(Ports::free());
            let mut nodes: Vec<_> = (1..=3).map(|number| CassandraNode::spawn(number, 3, &ports)).collect();
            // Ports are free on 127.0.0.1 only; another process may have them on the other addresses.
            if nodes.iter_mut().all(CassandraNode::has_its_ports) {
                return nodes;
            }
        }
    }

    /// Node `number` of `all`.
    fn spawn(number: u8, all: u8, ports: &Arc<Ports>) -> CassandraNode {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("conf")).unwrap();
        fs::write(dir.path().join("conf/cassandra.yaml"), settings(number, all, ports)).unwrap();
        fs::copy(repository().join("tests/cassandra/logback.xml"), dir.path().join("conf/logback.xml")).unwrap();
        let child = spawn(dir.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        CassandraNode { child, host: format!("127.0.0.{number}"), ports: ports.clone(), dir, runtime }
    }

    pub fn host(&self) -> &str {
        &self.host
    }
    /// As Larder and the driver name it.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port())
    }
    pub fn port(&self) -> u16 {
        self.ports.native.number
    }
    /// What the node logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log.txt")).unwrap_or_default()
    }
    /// `cassandra://cassandra:cassandra@127.0.0.1:PORT/KEYSPACE`, whose table there is.
    pub fn url(&self, keyspace: &str) -> String {
        let url = self.bare_url(keyspace);
        make_table(&url, 1);
        url
    }
    /// `cassandra://…/KEYSPACE` of several nodes, whose table there is, with as many copies.
    pub fn url_of(nodes: &[CassandraNode], keyspace: &str) -> String {
        let hosts: Vec<_> = nodes.iter().map(CassandraNode::address).collect();
        let url = format!("cassandra://{}/{keyspace}", hosts.join(","));
        // A node that the others do not know yet has none of them.
        wait_for_cluster("all nodes to know each other", || {
            nodes.iter().all(|node| node.cql(&["SELECT peer FROM system.peers_v2"]).len() == nodes.len() - 1)
        });
        make_table(&url, u16::try_from(nodes.len()).unwrap());
        url
    }
    /// The same without a table.
    pub fn bare_url(&self, keyspace: &str) -> String {
        format!("cassandra://cassandra:cassandra@127.0.0.1:{}/{keyspace}", self.port())
    }
    /// Runs statements; the rows of the last.
    pub fn cql(&self, statements: &[&str]) -> Vec<Row> {
        self.runtime.block_on(async {
            let session = self.session().await.unwrap();
            let mut rows = Vec::new();
            for statement in statements {
                let result =
                    session.query_unpaged(*statement, ()).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
                rows = match result.into_rows_result() {
                    Ok(result) => result.rows::<Row>().unwrap().map(Result::unwrap).collect(),
                    Err(_) => Vec::new(),
                };
            }
            rows
        })
    }
    async fn session(&self) -> Result<Session, scylla::errors::NewSessionError> {
        let node = format!("{}:{}", self.host, self.port());
        SessionBuilder::new().known_node(node).user("cassandra", "cassandra").build().await
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }
    /// Has it do nothing until it gets the signal to continue. Its threads may go on for a moment after
    /// the signal to stop: this waits for the last of them.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }
    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap()
    }
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
    /// Starts it again with the same ports and data.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.dir.path());
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        assert!(self.has_its_ports(), "a port is in use:\n{}", self.log());
    }
    /// Waits until the node is ready. `false`: it has ended because a port is in use.
    fn has_its_ports(&mut self) -> bool {
        let start = Instant::now();
        loop {
            if self.child.try_wait().unwrap().is_some() {
                let log = self.log();
                assert!(log.contains("in use by another process"), "Cassandra ends instead of starting:\n{log}");
                return false;
            }
            if TcpStream::connect((&self.host[..], self.port())).is_ok() && self.lets_in() {
                return true;
            }
            assert!(start.elapsed() < PATIENCE, "Cassandra does not answer:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    /// The superuser is made after the port is open.
    fn lets_in(&self) -> bool {
        self.runtime.block_on(async { self.session().await.is_ok() })
    }
}
impl Drop for CassandraNode {
    fn drop(&mut self) {
        self.kill();
    }
}

/// # Panics
/// The cluster refuses.
fn make_table(url: &str, replication: u16) {
    let Ok(larder_config::SourceUrl::Cassandra(parsed)) = url.parse() else { panic!("{url}") };
    // The nodes of a busy machine may take longer to agree than a statement may take.
    let begun = Instant::now();
    while let Err(error) = larder_source::apply_cassandra_schema(&parsed, replication) {
        assert!(begun.elapsed() < PATIENCE, "{error}");
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn spawn(dir: &Path) -> Child {
    let jars = repository().join(".deps/cassandra").canonicalize();
    let jars = jars.expect("`make tools` brings the jars of Cassandra");
    let options = fs::read_to_string(repository().join("tests/cassandra/jvm.options")).unwrap();
    let log = fs::File::options().create(true).append(true).open(dir.join("log.txt")).unwrap();
    Command::new("java")
        .current_dir(dir)
        .args(options.lines())
        .arg(format!("-Dcassandra.config=file://{}", dir.join("conf/cassandra.yaml").display()))
        .arg(format!("-Dcassandra.storagedir={}", dir.display()))
        .arg("-cp")
        .arg(format!("conf:{}/*", jars.display()))
        .arg("org.apache.cassandra.service.CassandraDaemon")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("java is installed")
}

fn settings(number: u8, all: u8, ports: &Ports) -> String {
    let [native, storage, tls_storage] = [&ports.native, &ports.storage, &ports.tls_storage].map(|port| port.number);
    let seeds: Vec<_> = (1..=all).map(|number| format!("127.0.0.{number}:{storage}")).collect();
    let seeds = seeds.join(",");
    let authenticator = if all == 1 { "PasswordAuthenticator" } else { "AllowAllAuthenticator" };
    // Each node is told its part of the ring, so that all start at once.
    let token = i128::from(i64::MIN) + (1 << 64) * i128::from(number - 1) / i128::from(all);
    let common = fs::read_to_string(repository().join("tests/cassandra/cassandra.yaml")).unwrap();
    // With `periodic`, a node that is killed may lose what it acknowledged just before. So a row that
    // two of three nodes acknowledged would be on one.
    format!(
        "{common}
commitlog_sync: batch
initial_token: {token}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: \"{seeds}\"
listen_address: 127.0.0.{number}
storage_port: {storage}
ssl_storage_port: {tls_storage}
rpc_address: 127.0.0.{number}
native_transport_port: {native}
authenticator: {authenticator}
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
"
    )
}
