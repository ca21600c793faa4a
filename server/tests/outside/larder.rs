//! A Larder process of the test's own: started, waited for by its ready line, ended.
use crate::common::{Client, PATIENCE, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
};

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("LARDER_BIN").map_or(env!("CARGO_BIN_EXE_larder").into(), PathBuf::from)
}

/// A running `larder serve` on free ports; killed when dropped.
pub(crate) struct Larder {
    child: Child,
    /// Where it answers HTTP.
    pub(crate) http: SocketAddr,
    /// Where it speaks the Redis protocol.
    pub(crate) redis: SocketAddr,
}

impl Larder {
    /// `larder serve --http 127.0.0.1:0 --redis 127.0.0.1:0 --admin 127.0.0.1:0` and `args`, ready when made.
    pub(crate) fn serve(args: &[&str]) -> Larder {
        let any = "127.0.0.1:0";
        let mut child = Command::new(binary())
            .args(["serve", "--http", any, "--redis", any, "--admin", any])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let ready = ready_line(&mut child);
        assert_eq!(ready["pid"], child.id(), "the ready line names the process");
        let address = |listener: &str| ready[listener][0].as_str().unwrap().parse().unwrap();
        Larder { http: address("http"), redis: address("redis"), child }
    }

    /// A connection over the Redis protocol.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.redis.port()).unwrap()
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
    }

    /// SIGTERM, and how it ended.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut status = None;
        wait_until("larder ends on SIGTERM", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}
impl Drop for Larder {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one JSON object that a start prints; a process that says nothing fails the test.
fn ready_line(child: &mut Child) -> serde_json::Value {
    let out = BufReader::new(child.stdout.take().unwrap());
    let (sender, receiver) = mpsc::channel();
    // A read cannot be given a deadline; the thread ends with the process.
    std::thread::spawn(move || {
        for line in out.lines() {
            // Nobody listens any more once the line was seen, but the pipe is emptied to the end.
            let _ = sender.send(line.unwrap());
        }
    });
    let line = receiver.recv_timeout(PATIENCE).expect("a ready line");
    let ready: serde_json::Value = serde_json::from_str(&line).expect("one JSON object");
    assert_eq!(ready["ready"], true);
    ready
}
