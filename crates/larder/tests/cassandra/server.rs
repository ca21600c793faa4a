//! Nodes of Cassandra of the tests' own, from the jars of `tests/cassandra` in `.deps`.
use crate::{common::Port, network::Network};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use scylla::{
    client::{execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder},
    policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy},
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
    number: u8,
    host: String,
    cluster: Arc<Cluster>,
    dir: TempDir,
    runtime: tokio::runtime::Runtime,
}

/// What the nodes of a cluster have in common. Each has an address of its own.
struct Cluster {
    /// How many nodes it has at first.
    all: u8,
    /// Each node has one of its hosts; `None`: 127.0.0.1 and those that follow it.
    network: Option<Arc<Network>>,
    native: Port,
    storage: Port,
    tls_storage: Port,
}
impl Cluster {
    fn new(all: u8, network: Option<&Arc<Network>>) -> Arc<Cluster> {
        let (native, storage, tls_storage) = (Port::free(), Port::free(), Port::free());
        Arc::new(Cluster { all, network: network.cloned(), native, storage, tls_storage })
    }
    fn host(&self, number: u8) -> String {
        let subnet = self.network.as_ref().map_or("127.0.0", |network| &network.subnet);
        format!("{subnet}.{number}")
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
        let mut node = CassandraNode::spawn(1, &Cluster::new(1, None));
        node.wait_until_ready();
        node
    }

    /// A cluster of three nodes on 127.0.0.1 to 127.0.0.3. It lets in who names no user: a node that
    /// is away may be the one that knows them.
    pub fn three() -> Vec<CassandraNode> {
        CassandraNode::three_on(None)
    }
    /// The same on the first three hosts of a network.
    pub fn three_on(network: Option<&Arc<Network>>) -> Vec<CassandraNode> {
        loop {
            let cluster = Cluster::new(3, network);
            let mut nodes: Vec<_> = (1..=3).map(|number| CassandraNode::spawn(number, &cluster)).collect();
            // Ports are free on 127.0.0.1 only; another process may have them on the other addresses.
            if nodes.iter_mut().all(CassandraNode::has_its_ports) {
                return nodes;
            }
        }
    }

    /// A node that joins this one's cluster, on the host that follows those of the first nodes. It has
    /// joined when made: it has copies of rows.
    pub fn join(&self) -> CassandraNode {
        let mut node = CassandraNode::spawn(self.cluster.all + 1, &self.cluster);
        node.wait_until_ready();
        node
    }

    fn spawn(number: u8, cluster: &Arc<Cluster>) -> CassandraNode {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("conf")).unwrap();
        fs::write(dir.path().join("conf/cassandra.yaml"), settings(number, cluster)).unwrap();
        fs::copy(repository().join("tests/cassandra/logback.xml"), dir.path().join("conf/logback.xml")).unwrap();
        let child = spawn(number, cluster, dir.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        CassandraNode { child, number, host: cluster.host(number), cluster: cluster.clone(), dir, runtime }
    }

    pub fn host(&self) -> &str {
        &self.host
    }
    /// As Larder and the driver name it.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port())
    }
    pub fn port(&self) -> u16 {
        self.cluster.native.number
    }
    /// What the node logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log.txt")).unwrap_or_default()
    }
    /// Whether this node holds the other one for up. It does until it has found it down.
    pub fn sees(&self, other: &CassandraNode) -> bool {
        let log = self.log();
        let found = format!("InetAddress /{}:{} is now ", other.host, self.cluster.storage.number);
        log.rfind(&found).is_none_or(|at| log[at + found.len()..].starts_with("UP"))
    }
    /// Whether the node has files of this keyspace's rows.
    pub fn has_files_of(&self, keyspace: &str) -> bool {
        let tables = fs::read_dir(self.dir.path().join("data").join(keyspace)).unwrap();
        let mut files = tables.flat_map(|table| fs::read_dir(table.unwrap().path()).unwrap());
        files.any(|file| file.unwrap().file_name().to_string_lossy().ends_with("-Data.db"))
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
    /// Runs statements on this node; the rows of the last.
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
        // The tables of the system differ by node: this session asks no other one.
        let address = NodeIdentifier::NodeAddress(self.address().parse().unwrap());
        let policy = SingleTargetLoadBalancingPolicy::new(address, None);
        let profile = ExecutionProfile::builder().load_balancing_policy(policy).build();
        let session = SessionBuilder::new().known_node(self.address()).user("cassandra", "cassandra");
        session.default_execution_profile_handle(profile.into_handle()).build().await
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
    /// Ends it as an operator does: it tells the other nodes, and writes its rows to disk.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        let mut status = None;
        wait_for_cluster("the node to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(128 + 15), "{}", self.log());
    }
    /// Starts it again with the same ports and data.
    pub fn start_again(&mut self) {
        self.child = spawn(self.number, &self.cluster, self.dir.path());
        self.wait_until_ready();
    }
    pub fn restart(&mut self) {
        self.kill();
        self.start_again();
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

fn spawn(number: u8, cluster: &Cluster, dir: &Path) -> Child {
    let jars = repository().join(".deps/cassandra").canonicalize();
    let jars = jars.expect("`make tools` brings the jars of Cassandra");
    let options = fs::read_to_string(repository().join("tests/cassandra/jvm.options")).unwrap();
    let log = fs::File::options().create(true).append(true).open(dir.join("log.txt")).unwrap();
    let mut java = match &cluster.network {
        Some(network) => network.command_on(number.into(), "java"),
        None => Command::new("java"),
    };
    java.current_dir(dir).args(options.lines());
    if number > cluster.all {
        // The others must know of a node that joins before it asks them for rows: it misses what they
        // write in between.
        java.arg("-Dcassandra.ring_delay_ms=10000");
    }
    java.arg(format!("-Dcassandra.config=file://{}", dir.join("conf/cassandra.yaml").display()))
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

fn settings(number: u8, cluster: &Cluster) -> String {
    let Cluster { all, native, storage, tls_storage, .. } = cluster;
    let [native, storage, tls_storage] = [native, storage, tls_storage].map(|port| port.number);
    // A seed starts without rows, any other node asks the seeds for them.
    let seeds: Vec<_> = (1..=*all).map(|number| format!("{}:{storage}", cluster.host(number))).collect();
    let (host, seeds) = (cluster.host(number), seeds.join(","));
    let authenticator = if *all == 1 { "PasswordAuthenticator" } else { "AllowAllAuthenticator" };
    // Each node is told its part of the ring, so that all start at once. One that joins gets half of
    // the first one's.
    let half_parts = if number <= *all { 2 * (number - 1) } else { 1 };
    let token = i128::from(i64::MIN) + (1 << 64) * i128::from(half_parts) / i128::from(2 * all);
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
listen_address: {host}
storage_port: {storage}
ssl_storage_port: {tls_storage}
rpc_address: {host}
native_transport_port: {native}
authenticator: {authenticator}
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
"
    )
}
