//! The documents' commands do what the documents say. In the files listed below every fenced block
//! marked
//!
//! - `sh` is run by bash in the repository's root and must succeed;
//! - `sh server` is started in the background, waited for until it is ready, and ended by the next
//!   one of its kind or at the end;
//! - `text` is what the block before it prints; `…` stands for any text within a line.
//!
//! (Of `docs/cluster.md`, only what is said to Larder, and that is checked and not run.)
//!
//! The documented ports are replaced by free ones, and `/var/lib/larder` by a folder of its own.
//! Everything else is as written.
use crate::{
    common::{PATIENCE, Port, wait_until},
    larder::binary,
};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
};
use tempfile::TempDir;

#[test]
fn readme() {
    run("README.md");
}
#[test]
fn getting_started() {
    run("docs/getting-started.md");
}
#[test]
fn in_front_of_redis() {
    run("docs/in-front-of-redis.md");
}
#[test]
fn console() {
    run("docs/console.md");
}
#[test]
fn operations() {
    run("docs/operations.md");
}
#[test]
fn disk_store() {
    let folder = tempfile::tempdir().unwrap();
    run_in("docs/disk-store.md", folder.path());
}
#[test]
fn disk_store_commands() {
    run("docs/disk-store-commands.md");
}
#[test]
fn http_origin() {
    run("docs/http-origin.md");
}
#[test]
fn faults() {
    run("docs/faults.md");
}
#[test]
fn what_if() {
    run("docs/what-if.md");
}

#[test]
fn hot_keys() {
    run("docs/hot-keys.md");
}
#[test]
fn passthrough() {
    run("docs/passthrough.md");
}
#[test]
fn snapshots() {
    run("docs/snapshots.md");
}
#[test]
fn documents() {
    run("docs/documents.md");
}
#[test]
fn replication() {
    run("docs/replication.md");
}
#[test]
fn tls() {
    run("docs/tls.md");
}
#[test]
fn limits() {
    run("docs/limits.md");
}
#[test]
fn proxies() {
    run("docs/proxies.md");
}
#[test]
fn users() {
    run("docs/users.md");
}
#[test]
fn tags() {
    run("docs/tags.md");
}

#[test]
fn peers() {
    run("docs/peers.md");
}
#[test]
fn coming_from_gcache() {
    let folder = tempfile::tempdir().unwrap();
    run_in("docs/coming-from-gcache.md", folder.path());
}
#[test]
fn coming_from_redis_proxy() {
    run("docs/coming-from-redis-proxy.md");
}
#[test]
fn coming_from_groupcache() {
    run("docs/coming-from-groupcache.md");
}
#[test]
fn coming_from_rocksdb() {
    run("docs/coming-from-rocksdb.md");
}
#[test]
fn observe() {
    run("docs/observe.md");
}
#[test]
fn sizing() {
    run("docs/sizing.md");
}
#[test]
fn troubleshooting() {
    run("docs/troubleshooting.md");
}
#[test]
fn upgrading() {
    run("docs/upgrading.md");
}
#[test]
fn stale() {
    run("docs/stale.md");
}
#[test]
fn tables() {
    let folder = tempfile::tempdir().unwrap();
    run_in("docs/tables.md", folder.path());
}
#[test]
fn postgres() {
    let server = crate::postgres_server::PostgresServer::start();
    run_with("docs/postgres.md", &root(), Some((5432, server.port())));
}
/// Its servers are on other machines, or take ports of their own (`tests/cluster` has such): what
/// it says to Larder is checked only.
#[test]
fn cluster() {
    let text = std::fs::read_to_string(root().join("docs/cluster.md")).unwrap();
    let blocks = blocks(&text);
    let lines = blocks.iter().filter(|block| block.kind == "sh").flat_map(|block| block.text.lines());
    let serving: Vec<&str> = lines.filter_map(|line| line.strip_prefix("larder serve")).collect();
    assert!(serving.len() >= 3, "{serving:?}");
    for settings in serving {
        let check = format!("{} config check{settings}", binary().display());
        let output = Command::new("bash").args(["-c", &check]).output().unwrap();
        assert!(output.status.success(), "{check}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn files_of_the_cookbook_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("larder.toml");
    for page in ["docs/cookbook.md", "docs/managed-redis.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let blocks: Vec<_> = blocks(&text).into_iter().filter(|block| block.kind == "toml").collect();
        assert!(!blocks.is_empty(), "{page}");
        for block in blocks {
            std::fs::write(&file, &block.text).unwrap();
            let output =
                Command::new(binary()).args(["config", "check", "--config"]).arg(&file).env_clear().output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{page}:{}: {said}", block.line);
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let mut documents: Vec<PathBuf> = ["", "docs", "docs/reference", "docs/decisions", "docs/formats", "tests/clients"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    assert!(documents.len() > 10, "{documents:?}");
    let mut dead = Vec::new();
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { document.clone() } else { document.with_file_name(path) };
            let is_whole = heading.is_empty() && file.exists();
            let there = || is_whole || std::fs::read_to_string(&file).is_ok_and(|text| has_heading(&text, heading));
            if !target.starts_with("https://") && !there() {
                dead.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

/// A heading by its anchor, as GitHub makes it.
fn has_heading(text: &str, anchor: &str) -> bool {
    let slug = |line: &str| -> String {
        let kept = line.to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    };
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    anchor.is_empty() || headings.any(|line| slug(line.trim_start_matches('#').trim()) == anchor)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a document from its first block to its last.
fn run(document: &str) {
    run_in(document, &root());
}
/// The same, of one that writes files where it is run.
fn run_in(document: &str, folder: &Path) {
    run_with(document, folder, None);
}
/// The same, with the documented port of a server that runs already, and its port here.
fn run_with(document: &str, folder: &Path, running: Option<(u16, u16)>) {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let shell = Shell {
        ports: [8080, 8081, 6380, 6379, 6378, 8443, 6390].map(|port| (port, Port::free())),
        running,
        folder: folder.to_path_buf(),
        data: tempfile::tempdir().unwrap(),
        target: target(),
    };
    let blocks = blocks(&text);
    assert!(blocks.iter().any(|block| block.kind == "sh"), "{document} has no command");
    // Of each kind the one that runs: a Redis, a Larder.
    let mut servers: [Option<Server>; 2] = [None, None];
    let mut printed = String::new();
    for block in blocks {
        println!("--- {document}:{}\n{}", block.line, block.text);
        match block.kind {
            "sh server" => {
                let server = &mut servers[usize::from(block.text.contains("redis-server"))];
                drop(server.take());
                *server = Some(shell.start(&block.text));
            }
            "sh" => {
                printed = shell.run(&block.text);
                println!("prints:\n{printed}");
            }
            "text" => {
                let documented = shell.translate(&block.text);
                assert!(matches(&documented, &printed), "{document}:{}: printed instead:\n{printed}", block.line);
            }
            // For reading only.
            _ => {}
        }
    }
}

struct Block<'a> {
    kind: &'a str,
    text: String,
    line: usize,
}

/// The fenced blocks, those within lists included.
fn blocks(document: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in document.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(kind), None) => open = Some(Block { kind, text: String::new(), line: index + 1 }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence that is not closed");
    blocks
}

/// Whether `printed` is the text `documented`, in which `…` stands for anything within a line.
fn matches(documented: &str, printed: &str) -> bool {
    let line = |(wanted, got): (&str, &str)| {
        let mut parts = wanted.trim_end().split('…');
        let mut rest = got.trim_end().strip_prefix(parts.next().unwrap_or_default());
        let mut open = false;
        for part in parts {
            open = true;
            rest = rest.and_then(|text| Some(&text[text.find(part)? + part.len()..]));
        }
        // After a last … comes anything, else nothing.
        rest.is_some_and(|rest| rest.is_empty() || (open && wanted.trim_end().ends_with('…')))
    };
    documented.lines().count() == printed.lines().count() && documented.lines().zip(printed.lines()).all(line)
}

#[test]
fn documented_output_is_compared() {
    assert!(matches("a …\nb\n", "a 12\nb\n"));
    assert!(matches("…: 1\n", "x: 1\n"));
    assert!(!matches("a\n", "a\nb\n"));
    assert!(!matches("a … c\n", "a b d\n"));
    assert!(!matches("a …b\n", "a bc\n"));
}

/// What a reader types prints replies as redis-cli does on a terminal (`"Ada"`, `(nil)`), and in a
/// pipe or a file without these signs.
const AS_ON_A_TERMINAL: &str = r#"redis-cli() {
    if [ /proc/self/fd/1 -ef /proc/$$/fd/1 ]; then command redis-cli --no-raw "$@"; else command redis-cli "$@"; fi
}
"#;

/// How a reader's shell is set up, but for the ports.
struct Shell {
    ports: [(u16, Port); 7],
    running: Option<(u16, u16)>,
    folder: PathBuf,
    /// In the place of `/var/lib/larder`.
    data: TempDir,
    /// Where `make run` looks for what it has built.
    target: TempDir,
}

/// A folder of builds in which `make run` finds the program under test.
fn target() -> TempDir {
    let target = tempfile::tempdir().unwrap();
    let fast = target.path().join("fast");
    std::fs::create_dir(&fast).unwrap();
    std::os::unix::fs::symlink(binary(), fast.join("larder")).unwrap();
    target
}
impl Shell {
    /// Replaces the documented ports and the folder of data.
    fn translate(&self, text: &str) -> String {
        // In two steps, because a free port's number may look like a documented one's.
        let free = self.ports.iter().map(|(documented, free)| (*documented, free.number));
        let ports: Vec<(u16, u16)> = free.chain(self.running).collect();
        let marked = (0..).zip(&ports).fold(text.to_owned(), |text, (number, (documented, _))| {
            text.replace(&documented.to_string(), &format!("\0{number}\0"))
        });
        let text = (0..).zip(&ports).fold(marked, |text, (number, (_, free)): (u8, _)| {
            text.replace(&format!("\0{number}\0"), &free.to_string())
        });
        text.replace("/var/lib/larder", self.data.path().to_str().unwrap())
    }

    fn bash(&self, text: &str) -> Command {
        let bin = binary();
        let folder = bin.parent().unwrap().to_str().unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", &format!("{AS_ON_A_TERMINAL}{}", self.translate(text))])
            .current_dir(&self.folder)
            .env("PATH", format!("{folder}:{path}"))
            // `make run` does not build here. It finds the program under test where it would have built one.
            .env("CARGO", "true")
            .env("CARGO_TARGET_DIR", self.target.path())
            // A make around this test is none of the reader's.
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .stdin(Stdio::null());
        for (variable, (_, port)) in ["LARDER_HTTP", "LARDER_ADMIN", "LARDER_REDIS"].iter().zip(&self.ports) {
            command.env(variable, format!("127.0.0.1:{}", port.number));
        }
        command
    }

    /// Runs to the end; what it prints on standard output.
    fn run(&self, text: &str) -> String {
        let output = self.bash(text).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}ends with {}:\n{printed}{errors}", output.status);
        printed
    }

    /// Starts a server and waits until it says that it is ready.
    fn start(&self, text: &str) -> Server {
        // A group of its own: bash, make and the server end together.
        let mut child = self.bash(text).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let server = Server { child };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines() {
                // The pipe is emptied to its end, also when no test waits any more.
                let _ = sender.send(line.unwrap());
            }
        });
        loop {
            let line = receiver.recv_timeout(PATIENCE).expect("a server that becomes ready");
            println!("prints:\n{line}");
            if line.contains("\"ready\":true") || line.contains("Ready to accept connections") {
                return server;
            }
        }
    }
}

/// A server block's processes, ended when dropped: all of them hear what Ctrl-C tells a terminal's
/// foreground group.
struct Server {
    child: Child,
}
impl Drop for Server {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::INT);
        let _ = self.child.wait();
        if !std::thread::panicking() {
            wait_until("the server's processes end", || test_kill_process_group(group).is_err());
        }
    }
}
