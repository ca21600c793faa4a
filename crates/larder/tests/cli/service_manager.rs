//! What a service manager hears: a socket of the test stands where systemd's would.
use super::{common::PATIENCE, larder::Larder};
use rustix::process::Signal;
use std::{fs, os::unix::net::UnixDatagram, path::Path};
use tempfile::TempDir;

/// The manager's end of the socket.
struct Manager {
    socket: UnixDatagram,
    folder: TempDir,
}

impl Manager {
    fn new() -> Manager {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Manager { socket, folder }
    }

    fn start(&self, env: &[(&str, &str)], args: &[&str]) -> Larder {
        let notify = self.path("notify");
        Larder::with_env(&[env, &[("NOTIFY_SOCKET", &notify)]].concat(), args)
    }

    fn path(&self, name: &str) -> String {
        Path::join(self.folder.path(), name).to_str().unwrap().to_owned()
    }

    /// The lines of the next message.
    fn message(&self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).expect("a message in time");
        str::from_utf8(&buffer[..length]).unwrap().lines().map(str::to_owned).collect()
    }

    /// The next message that is not a keep-alive.
    fn event(&self) -> Vec<String> {
        std::iter::repeat_with(|| self.message()).find(|lines| lines[0] != "WATCHDOG=1").unwrap()
    }
}

#[test]
fn the_manager_hears_of_start_reload_and_end() {
    let manager = Manager::new();
    let file = manager.path("larder.toml");
    fs::write(&file, "grace = \"7s\"\nttl = \"1m\"\n").unwrap();
    let mut larder = manager.start(&[], &["--config", &file]);
    let ready = manager.message();
    assert_eq!(ready[0], "READY=1");
    let http = format!("http://127.0.0.1:{}", larder.http);
    assert!(ready[1].starts_with("STATUS=Serving ") && ready[1].contains(&http), "{ready:?}");

    let reload = |text: &str| {
        fs::write(&file, text).unwrap();
        larder.signal(Signal::HUP);
        let reloading = manager.message();
        assert_eq!(reloading[0], "RELOADING=1");
        let micros = reloading[1].strip_prefix("MONOTONIC_USEC=").expect("the time of the reload");
        assert!(micros.parse::<u64>().unwrap() > 0);
        let ready = manager.message();
        assert_eq!((ready.len(), &*ready[0]), (2, "READY=1"), "{ready:?}");
        ready[1].clone()
    };
    let changed = reload("grace = \"9s\"\nttl = \"2m\"\n");
    assert!(changed.contains("2 changed, 0 need a restart"), "{changed}");
    let refused = reload("grace = \"9s\"\nttl = \"soon\"\nnothing = 1\n");
    assert!(refused.contains("the last reload changed nothing") && refused.contains("soon"), "{refused}");

    larder.signal(Signal::TERM);
    let stopping = manager.message();
    assert_eq!(stopping[..2], ["STOPPING=1", "EXTEND_TIMEOUT_USEC=14000000"], "grace, and a margin");
    assert_eq!(larder.wait().0.code(), Some(0));
}

#[test]
fn the_watchdog_gets_signs_of_life() {
    let manager = Manager::new();
    let larder = manager.start(&[("WATCHDOG_USEC", "200000")], &["--threads", "2"]);
    assert_eq!(manager.message()[0], "READY=1");
    // Longer than a period: the workers have beaten meanwhile.
    for _ in 0..12 {
        assert_eq!(manager.message(), ["WATCHDOG=1"]);
    }
    larder.signal(Signal::TERM);
    assert_eq!(manager.event()[0], "STOPPING=1");
}

#[test]
fn without_a_watchdog_there_are_no_signs_and_a_lost_manager_is_no_reason_to_stop() {
    let manager = Manager::new();
    let mut larder = manager.start(&[], &[]);
    assert_eq!(manager.message()[0], "READY=1");
    fs::remove_file(manager.path("notify")).unwrap();
    larder.signal(Signal::HUP);
    larder.signal(Signal::TERM);
    assert_eq!(larder.wait().0.code(), Some(0));
    let errors = larder.stderr();
    assert!(errors.contains("the service manager (NOTIFY_SOCKET) cannot be reached"), "{errors}");
    manager.socket.set_nonblocking(true).unwrap();
    assert!(manager.socket.recv(&mut [0; 64]).is_err(), "nothing but READY");
}
