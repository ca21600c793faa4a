//! Nodes of Cassandra of the tests' own, from the jars of `tests/cassandra` in `.deps`.
use crate::common::Port;
use rustix::process::{Pid, Signal, kill_process};
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

/// A cluster of one node with the superuser `cassandra`, whose password is his name. Ready when
/// made, killed when dropped.
pub struct CassandraNode {
    child: Child,
    native: Port,
    storage: Port,
    tls_storage: Port,
    dir: TempDir,
    runtime: tokio::runtime::Runtime,
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
        let [native, storage, tls_storage] = [(); 3].map(|()| Port::free());
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("conf")).unwrap();
        fs::write(
            dir.path().join("conf/cassandra.yaml"),
            settings([&native, &storage, &tls_storage].map(|port| port.number)),
        )
        .unwrap();
        fs::copy(repository().join("tests/cassandra/logback.xml"), dir.path().join("conf/logback.xml")).unwrap();
        let child = spawn(dir.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut node = CassandraNode { child, native, storage, tls_storage, dir, runtime };
        node.wait_until_ready();
        node
    }

    pub fn port(&self) -> u16 {
        self.native.number
    }
    /// What the node logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log.txt")).unwrap_or_default()
    }
    /// `cassandra://cassandra:cassandra@127.0.0.1:PORT/KEYSPACE`, whose table there is.
    pub fn url(&self, keyspace: &str) -> String {
        let url = self.bare_url(keyspace);
        let Ok(larder_config::SourceUrl::Cassandra(parsed)) = url.parse() else { panic!("{url}") };
        larder_source::apply_cassandra_schema(&parsed, 1).unwrap();
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
        let node = format!("127.0.0.1:{}", self.port());
        SessionBuilder::new().known_node(node).user("cassandra", "cassandra").build().await
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
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
        let start = Instant::now();
        loop {
            assert!(self.child.try_wait().unwrap().is_none(), "Cassandra ends instead of starting:\n{}", self.log());
            if TcpStream::connect(("127.0.0.1", self.port())).is_ok() && self.lets_in() {
                return;
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
        let _ports = (&self.storage, &self.tls_storage);
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

fn settings([native, storage, tls_storage]: [u16; 3]) -> String {
    format!(
        "
cluster_name: larder
num_tokens: 4
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: \"127.0.0.1:{storage}\"
listen_address: 127.0.0.1
storage_port: {storage}
ssl_storage_port: {tls_storage}
rpc_address: 127.0.0.1
native_transport_port: {native}
endpoint_snitch: SimpleSnitch
authenticator: PasswordAuthenticator
commitlog_sync: periodic
commitlog_sync_period: 10s
commitlog_directory: commitlog
saved_caches_directory: saved
hints_directory: hints
cdc_raw_directory: cdc
data_file_directories: [data]
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
file_cache_size: 32MiB
concurrent_reads: 8
concurrent_writes: 8
auto_snapshot: false
"
    )
}
