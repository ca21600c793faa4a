//! `larder health|status|top`, `LARDER_URL`, `get HOST:PORT KEY`, completions and the manual.
use super::{
    Run,
    common::{Port, RedisServer, wait_until},
    larder::Larder,
    run,
};
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::{Command, Stdio},
};

fn json(run: &Run) -> Value {
    serde_json::from_str(run.text()).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

#[test]
fn health_is_an_exit_code() {
    let redis = RedisServer::start();
    let source = format!("redis://127.0.0.1:{}", redis.port());
    let larder = Larder::start(&["--source", &source, "--coherence", "off"]);
    let url = format!("http://127.0.0.1:{}", larder.admin);
    let health = |args: &[&str]| run(&[&["health"], args].concat(), &[("LARDER_URL", &url)], b"");
    assert_eq!(health(&[]), Run { code: 0, out: b"ready\n".to_vec(), error: String::new() });
    assert_eq!(json(&health(&["--json"])), serde_json::json!({ "healthy": true, "text": "ready" }));
    drop(redis);
    wait_until("the source to be lost", || health(&[]).code == 1);
    let lost = json(&health(&["--json"]));
    assert_eq!(lost["healthy"], false, "{lost}");
    assert_eq!(health(&["--alive"]).code, 0);
    let nowhere = Port::free();
    let refused = run(&["health", "--url", &format!("http://127.0.0.1:{}", nowhere.number)], &[], b"");
    assert_eq!((refused.code, refused.text()), (3, ""), "{}", refused.error);
    // Not a Larder: an answer, but none on health.
    let page = run(&["health", "--url", &format!("{url}/elsewhere")], &[], b"");
    assert_eq!(page.code, 3, "{}", page.error);
}

#[test]
fn status_and_top_show_groups() {
    let larder = Larder::start(&["--source", "demo:", "--ttl", "1m"]);
    let url = format!("http://127.0.0.1:{}", larder.admin);
    let address = format!("127.0.0.1:{}", larder.http);
    for _ in 0..4 {
        assert_eq!(run(&["get", &address, "a"], &[], b"").code, 0);
    }
    let status = run(&["status", "--url", &url], &[], b"");
    assert_eq!(status.code, 0, "{}", status.error);
    assert!(status.text().starts_with(concat!("ready\nlarder ", env!("CARGO_PKG_VERSION"), ", ")), "{}", status.text());
    let row = status.text().lines().find(|line| line.starts_with("default")).unwrap();
    let row = row.split_whitespace().collect::<Vec<_>>();
    assert_eq!(row[..5], ["default", "3", "1", "75.0", "%"], "{}", status.text());
    let document = json(&run(&["status", "--url", &url, "--json"], &[], b""));
    assert_eq!(document["stats"]["groups"]["default"]["cache_hits"], 3);
    let top = run(&["top", "--url", &url, "--interval", "10ms", "--count", "2"], &[], b"");
    assert_eq!(top.code, 0, "{}", top.error);
    assert_eq!(top.text().matches("hits/s").count(), 2, "{}", top.text());
    assert!(!top.text().contains('\u{1b}'), "not a terminal");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_command() {
    let larder = Larder::start(&[]);
    let url = format!("http://127.0.0.1:{}", larder.admin);
    for form in [&[][..], &["--json"]] {
        let mut top = Command::new(env!("CARGO_BIN_EXE_larder"))
            .args(["top", "--url", &url, "--interval", "10ms"])
            .args(form)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(top.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(env!("CARGO_PKG_VERSION")), "{line}");
        // The pipe is closed now.
        let mut ended = None;
        wait_until("top to end", || {
            ended = top.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.unwrap().code(), Some(0));
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let larder = Larder::start(&[]);
    let http = format!("127.0.0.1:{}", larder.http);
    let admin = format!("127.0.0.1:{}", larder.admin);
    assert_eq!(run(&["set", "k", "v", "--url", &http], &[], b"").code, 0);
    for args in [&["get", &http, "k"][..], &["status", &admin], &["top", &admin, "--interval", "10ms"], &["man"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_larder")).args(args).stdout(full).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {error}");
        assert!(error.contains("cannot write to standard output: No space left"), "{args:?}: {error}");
    }
}

/// `larder top` on a terminal of 80 columns, which script(1) makes.
#[test]
fn top_on_a_terminal_fits_it_and_waits_for_a_lost_server() {
    let larder = Larder::start(&[]);
    let listens = format!("127.0.0.1:{}", larder.http);
    let call = format!("stty cols 80 rows 24; {} top {listens} --interval 10ms; stty -a", env!("CARGO_BIN_EXE_larder"));
    let mut script = Command::new("script")
        .args(["-qfec", &call, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(script.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |text: &str| {
        let line = lines.find(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("no line with {text}"))
    };
    until("hits/s");
    let source = until("source");
    assert!(source.contains("group") && !source.contains("hits/s"), "a table of its own: {source:?}");
    drop(larder);
    until("is Larder running there?");
    until("Trying again every 10ms");
    // In its place: the least that `top` takes. Meanwhile another process's connection may have had the port.
    let mut again = None;
    wait_until("the port to be free", || {
        again = TcpListener::bind(&listens).ok();
        again.is_some()
    });
    std::thread::spawn(move || {
        for stream in again.unwrap().incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
        }
    });
    until("larder ?");
    // A key ends it, and its terminal is as before.
    script.stdin.as_mut().unwrap().write_all(b"xq").unwrap();
    until("icanon");
    assert!(script.wait().unwrap().success());
}

#[test]
fn the_address_comes_from_a_variable_or_before_the_key() {
    let larder = Larder::start(&[]);
    let address = format!("127.0.0.1:{}", larder.http);
    let vars = [("LARDER_URL", format!("http://{address}"))];
    let vars = vars.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(run(&["set", "k", "v"], &vars, b"").code, 0);
    assert_eq!(run(&["get", "k"], &vars, b"").text(), "v");
    assert_eq!(run(&["get", &address, "k"], &[], b"").text(), "v");
    assert_eq!(run(&["get", "nowhere", "k"], &[], b"").code, 2);
    // The flag overrides the variable, and `serve` does not take it for a setting.
    let redis = format!("redis://127.0.0.1:{}", larder.redis);
    assert_eq!(run(&["get", "k", "--url", &redis], &[("LARDER_URL", "http://127.0.0.1:1")], b"").text(), "v");
    assert_eq!(run(&["config", "check"], &vars, b"").code, 0);
    let help = run(&["get", "--help"], &[("LARDER_URL", "redis://:hunter2@h")], b"");
    assert!(help.text().contains("LARDER_URL") && !help.text().contains("hunter2"), "{}", help.text());
}

#[test]
fn completions_and_the_manual_have_every_command() {
    for (shell, mark) in [("bash", "complete -F _larder"), ("zsh", "#compdef larder"), ("fish", "complete -c larder")] {
        let completions = run(&["completions", shell], &[], b"");
        assert_eq!(completions.code, 0, "{}", completions.error);
        assert!(completions.text().contains(mark) && completions.text().contains("max-memory"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("larder.bash");
    std::fs::write(&script, run(&["completions", "bash"], &[], b"").out).unwrap();
    // bash itself: `larder he<TAB>`, and so on.
    let tab = |words: &[&str]| {
        let [.., before, current] = words else { panic!("{words:?}") };
        let tab = format!(
            "source {}; COMP_WORDS=({}); COMP_CWORD={}; _larder larder '{current}' {before}; echo \"${{COMPREPLY[*]}}\"",
            script.display(),
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1
        );
        let output = Command::new("bash").args(["-c", &tab]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert!(tab(&["larder", "he"]).contains("health"));
    assert_eq!(tab(&["larder", "exit"]), "", "a command for the reference only");
    // Without a command, the flags are those of `serve`; and what has names offers them.
    for serve in [&["larder"][..], &["larder", "serve"], &["larder", "config", "check"]] {
        assert_eq!(tab(&[serve, &["--log-lev"]].concat()), "--log-level", "{serve:?}");
        assert_eq!(tab(&[serve, &["--log-level", ""]].concat()), "off error warn info debug trace", "{serve:?}");
        assert_eq!(tab(&[serve, &["--pin", ""]].concat()), "true false", "{serve:?}");
    }
    // Not the names of files.
    assert_eq!(tab(&["larder", "get", "k", "--url", "h"]), "h");
    let [zsh, fish] = ["zsh", "fish"].map(|shell| run(&["completions", shell], &[], b"").text().to_owned());
    assert!(zsh.contains("'*:key -- ") && !zsh.contains("'*::key -- "), "flags after the key");
    assert!(fish.contains("using_subcommand completions\" -f -a \"bash "), "{fish}");
    assert_eq!(run(&["completions", "tcsh"], &[], b"").code, 2);
    let page = run(&["man"], &[], b"");
    assert!(page.text().contains(".TH larder 1") && page.text().contains("Exit codes"), "{}", page.text());
    let pages = folder.path().join("man");
    assert_eq!(run(&["man", "--out", pages.to_str().unwrap()], &[], b"").code, 0);
    for name in ["larder.1", "larder-serve.1", "larder-table-build.1"] {
        assert!(std::fs::read_to_string(pages.join(name)).unwrap().contains(".TH"), "{name}");
    }
}

#[test]
fn the_reference_has_the_exit_codes() {
    let table = run(&["exit-codes"], &[], b"");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/command-line.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains(table.text()),
        "docs/reference/command-line.md does not have `larder exit-codes`:\n{}",
        table.text()
    );
}

#[test]
fn pin_keeps_each_worker_on_a_core() {
    /// The cores of each thread of a process, by the thread's name.
    fn cores(larder: &Larder) -> Vec<(String, String)> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", larder.pid())).unwrap();
        let field = |status: &str, name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().to_owned()
        };
        let statuses = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap());
        let mut cores: Vec<_> =
            statuses.map(|status| (field(&status, "Name:"), field(&status, "Cpus_allowed_list:"))).collect();
        cores.retain(|(name, _)| name.starts_with("worker-"));
        cores.sort();
        cores
    }
    let free = cores(&Larder::start(&["--threads", "2"]));
    assert_eq!(free.len(), 2);
    assert_eq!(free[0].1, free[1].1);
    let pinned = cores(&Larder::start(&["--threads", "2", "--pin"]));
    let each: Vec<usize> = pinned.iter().map(|(_, cores)| cores.parse().expect("one core")).collect();
    let has_one = free[0].1.parse::<usize>().is_ok();
    assert_eq!(each.len(), 2);
    assert_eq!(each[0] == each[1], has_one, "{pinned:?} of {free:?}");
}
