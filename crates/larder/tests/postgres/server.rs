//! A PostgreSQL of the test's own: Debian's version 15, or that of `LARDER_TEST_POSTGRES`, which
//! names a folder with `initdb` and `postgres`.
use crate::common::{PATIENCE, Port, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    net::TcpStream,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::Instant,
};
use tempfile::TempDir;

/// The account of Debian's package: `initdb` and `postgres` refuse to run as root.
const ACCOUNT: &str = "postgres";

/// A server with the database `shop` and the superuser `app`, who needs no password. Ready when
/// made, killed when dropped.
pub struct PostgresServer {
    child: Child,
    port: Port,
    dir: TempDir,
    args: Vec<String>,
}

impl PostgresServer {
    pub fn start() -> PostgresServer {
        PostgresServer::with(&[])
    }

    /// With more settings (`max_connections=10`).
    pub fn with(settings: &[&str]) -> PostgresServer {
        let dir = tempfile::tempdir().unwrap();
        copy(initialised(), dir.path());
        PostgresServer::in_dir(dir, settings)
    }

    /// With a folder that has the data already, such as that of `pg_basebackup`.
    pub fn in_dir(dir: TempDir, settings: &[&str]) -> PostgresServer {
        give(dir.path());
        let args: Vec<String> = settings.iter().flat_map(|of| ["-c".to_owned(), of.to_string()]).collect();
        let port = Port::free();
        let child = spawn(port.number, &args, dir.path());
        let mut server = PostgresServer { child, port, dir, args };
        server.wait_until_ready();
        server
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }
    /// Its data, its sockets, its log.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
    /// `postgres://app@127.0.0.1:PORT/shop?PARAMETERS`
    pub fn url(&self, parameters: &str) -> String {
        format!("postgres://app@127.0.0.1:{}/shop?{parameters}", self.port())
    }
    /// What the server logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log.txt")).unwrap_or_default()
    }

    /// Runs statements with psql; its output, one line a row, columns separated by `|`.
    #[track_caller]
    pub fn sql(&self, statements: &str) -> String {
        self.try_sql(statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }
    /// The same, of which the error is what psql wrote.
    pub fn try_sql(&self, statements: &str) -> Result<String, String> {
        let port = self.port().to_string();
        let output = Command::new(program("psql"))
            .args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", &port, "-U", "app"])
            .args(["-d", "shop", "-c", statements])
            .stdin(Stdio::null())
            .output()
            .expect("psql is installed");
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).unwrap().trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Ends it as a crash would, with all its processes.
    pub fn kill(&mut self) {
        let children = self.children();
        // Already dead is as good.
        let _ = self.child.kill();
        self.child.wait().unwrap();
        // A child that notices its parent's end late would still answer a query.
        for child in children {
            let _ = kill_process(child, Signal::KILL);
            wait_until("the end of a child of PostgreSQL", || has_ended(child));
        }
    }
    /// The processes of its clients, and those of its own work.
    fn children(&self) -> Vec<Pid> {
        let id = self.child.id();
        let pids = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        pids.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect()
    }
    /// Starts it again on the same port, with the same data.
    pub fn restart(&mut self) {
        self.kill();
        // A killed server leaves it behind.
        let _ = fs::remove_file(self.dir.path().join("postmaster.pid"));
        let start = Instant::now();
        loop {
            self.child = spawn(self.port(), &self.args, self.dir.path());
            if self.is_ready() {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "PostgreSQL does not start again:\n{}", self.log());
        }
    }
    /// Puts a line before all others of `pg_hba.conf`.
    pub fn allow(&self, line: &str) {
        let file = self.dir.path().join("data/pg_hba.conf");
        let text = format!("{line}\n{}", fs::read_to_string(&file).unwrap());
        fs::write(&file, text).unwrap();
        self.sql("SELECT pg_reload_conf()");
        wait_until("the new rules", || {
            self.sql("SELECT count(*) FROM pg_hba_file_rules WHERE line_number = 1 AND error IS NULL") == "1"
        });
    }
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn wait_until_ready(&mut self) {
        assert!(self.is_ready(), "PostgreSQL does not start:\n{}", self.log());
    }
    /// Waits until it lets clients in; false if it ended instead.
    fn is_ready(&mut self) -> bool {
        let start = Instant::now();
        loop {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            // psql costs more than a look at the port.
            if TcpStream::connect(("127.0.0.1", self.port())).is_ok() && self.try_sql("SELECT 1").is_ok() {
                return true;
            }
            assert!(start.elapsed() < PATIENCE, "PostgreSQL does not answer:\n{}", self.log());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
impl Drop for PostgresServer {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_some() {
            return;
        }
        // A fast shutdown ends its children too.
        self.signal(Signal::INT);
        wait_until("the end of PostgreSQL", || self.child.try_wait().unwrap().is_some());
    }
}

/// Whether nothing of it runs any more: its parent may not have asked for its end yet.
fn has_ended(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.map_or(true, |stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['Z', 'X'])))
}

/// A program of PostgreSQL.
pub fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("LARDER_TEST_POSTGRES").map(PathBuf::from);
    let own = folder.unwrap_or_else(|| "/usr/lib/postgresql/15/bin".into()).join(name);
    if own.exists() { own } else { name.into() }
}

/// A command of PostgreSQL's account, if this is root.
pub fn as_account(program: &Path) -> Command {
    if !rustix::process::getuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", ACCOUNT, "--regid", ACCOUNT, "--clear-groups"]).arg(program);
    command
}

fn spawn(port: u16, args: &[String], dir: &Path) -> Child {
    let log = fs::File::options().create(true).append(true).open(dir.join("log.txt")).unwrap();
    as_account(&program("postgres"))
        .arg("-D")
        .arg(dir.join("data"))
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k"])
        .arg(dir)
        .args(["-c", "wal_level=logical", "-c", "fsync=off", "-c", "max_wal_senders=10", "-c", "shared_buffers=16MB"])
        .args(["-c", "logging_collector=off"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("PostgreSQL is installed")
}

/// A cluster as `initdb` makes it, once for all tests of this process: it takes a second.
fn initialised() -> &'static Path {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        give(dir.path());
        let output = as_account(&program("initdb"))
            .args(["--auth=trust", "--username=app", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(dir.path().join("data"))
            .output()
            .expect("PostgreSQL is installed");
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        // Its database is made without a server.
        let mut single = as_account(&program("postgres"))
            .args(["--single", "-D"])
            .arg(dir.path().join("data"))
            .arg("template1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::io::Write::write_all(single.stdin.as_mut().unwrap(), b"CREATE DATABASE shop\n").unwrap();
        drop(single.stdin.take());
        assert!(single.wait().unwrap().success(), "CREATE DATABASE");
        dir
    });
    made.path()
}

/// The folder is PostgreSQL's own.
pub fn give(dir: &Path) {
    give_with(dir, 0o755);
}
/// The file is PostgreSQL's own, and no one else reads it.
pub fn give_file(file: &Path) {
    give_with(file, 0o600);
}
fn give_with(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    if rustix::process::getuid().is_root() {
        let id = |flag: &str| {
            let output = Command::new("id").args([flag, ACCOUNT]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().ok()
        };
        chown(path, id("-u"), id("-g")).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from.join("data")).arg(to).status().unwrap();
    assert!(done.success(), "cp");
}
