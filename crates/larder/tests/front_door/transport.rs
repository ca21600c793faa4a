//! Clients over io_uring (`transport`). `make test` also runs suites of connections, buffers,
//! attacks and limits over it.
use super::{
    common::wait_until,
    larder::{Larder, binary, connect, encode, expect, expect_end},
    sockets::exchange,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::Shutdown,
    process::{Command, Stdio},
};

/// A server over io_uring.
fn over_ring(args: &[&str]) -> Larder {
    let larder = Larder::start(&[&["--transport=io-uring"], args].concat());
    let info = exchange(larder.stream(), b"INFO server\r\nQUIT\r\n");
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap();
    assert_eq!(disabled.trim(), "0", "this kernel must allow io_uring");
    assert!(info.contains("multiplexing_api:io_uring"), "{info}");
    larder
}

/// Bytes that differ from place to place.
fn value(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + seed) as u8).collect()
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

#[test]
fn values_of_all_sizes_arrive_unchanged() {
    let larder = over_ring(&[]);
    let mut stream = larder.stream();
    // Around a receive buffer (2 KiB), the largest copied output (16 KiB) and a lent input buffer (64 KiB); small ones
    // between, which lead back to the kernel's buffers.
    let sizes = [1, 100, 2047, 2048, 2049, 8192, 16_370, 16_384, 16_400, 65_536, 200_000, 3_000_000];
    for round in 0..3 {
        for (seed, size) in sizes.into_iter().enumerate() {
            let value = value(size, seed + round);
            stream.write_all(&encode(&[b"SET", b"key", &value])).unwrap();
            expect(&mut stream, b"+OK\r\n");
            for _ in 0..12 {
                stream.write_all(b"GET key\r\n").unwrap();
                expect(&mut stream, &bulk(&value));
            }
        }
    }
}

/// Each write of the client is a packet that ends in the middle of a command.
#[test]
fn commands_in_pieces_are_put_together() {
    let larder = over_ring(&[]);
    let mut stream = larder.stream();
    let value = value(20_000, 7);
    let commands: Vec<u8> = (0..20).flat_map(|_| encode(&[b"SET", b"key", &value])).collect();
    for size in [1000, 4096, 8192, 9000] {
        for piece in commands.chunks(size) {
            stream.write_all(piece).unwrap();
        }
        expect(&mut stream, &b"+OK\r\n".repeat(20));
    }
    stream.write_all(b"GET key\r\n").unwrap();
    expect(&mut stream, &bulk(&value));
}

#[test]
fn clients_that_stop_in_the_middle_leave_buffers_to_others() {
    let larder = over_ring(&["--threads=1"]);
    // More clients than there are receive buffers, each with part of a command.
    let waiting: Vec<_> = (0..1100)
        .map(|number| {
            let mut stream = larder.stream();
            let begun = format!("*3\r\n$3\r\nSET\r\n$7\r\nkey{number:04}\r\n$10000\r\n");
            stream.write_all(&[begun.as_bytes(), &value(9_000, number)].concat()).unwrap();
            (number, stream)
        })
        .collect();
    let mut other = larder.stream();
    for _ in 0..50 {
        other.write_all(b"PING\r\n").unwrap();
        expect(&mut other, b"+PONG\r\n");
    }
    for (number, mut stream) in waiting {
        stream.write_all(&[&value(10_000, number)[9_000..], b"\r\n"].concat()).unwrap();
        expect(&mut stream, b"+OK\r\n");
        stream.write_all(format!("GET key{number:04}\r\n").as_bytes()).unwrap();
        expect(&mut stream, &bulk(&value(10_000, number)));
    }
}

#[test]
fn a_client_that_reads_late_gets_every_reply() {
    let larder = over_ring(&["--threads=1"]);
    let (small, large) = (value(3_000, 1), value(50_000, 2));
    let mut stream = larder.stream();
    stream.write_all(&[encode(&[b"SET", b"small", &small]), encode(&[b"SET", b"large", &large])].concat()).unwrap();
    expect(&mut stream, b"+OK\r\n+OK\r\n");
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for _ in 0..1_500 {
            writer.write_all(b"GET small\r\nGET small\r\nGET large\r\n").unwrap();
        }
        // Replies are due all the same.
        writer.shutdown(Shutdown::Write).unwrap();
    });
    // Others are served while it does not read.
    let mut other = larder.stream();
    for _ in 0..200 {
        other.write_all(b"PING\r\n").unwrap();
        expect(&mut other, b"+PONG\r\n");
    }
    let replies = [bulk(&small), bulk(&small), bulk(&large)].concat();
    for _ in 0..1_500 {
        expect(&mut stream, &replies);
    }
    expect_end(&mut stream);
    sender.join().unwrap();
}

#[test]
fn a_client_that_goes_while_replies_wait_leaves_nothing() {
    let larder = over_ring(&["--threads=1"]);
    let mut stream = larder.stream();
    stream.write_all(&encode(&[b"SET", b"key", &value(10_000, 3)])).unwrap();
    expect(&mut stream, b"+OK\r\n");
    let files = || fs::read_dir(format!("/proc/{}/fd", larder.pid())).unwrap().count();
    let before = files();
    for _ in 0..20 {
        let mut stuck = larder.stream();
        stuck.set_nonblocking(true).unwrap();
        // Until neither side takes more.
        while stuck.write(&b"GET key\r\n".repeat(1_000)).is_ok() {}
    }
    wait_until("all sockets to be closed", || files() <= before);
    stream.write_all(b"PING\r\n").unwrap();
    expect(&mut stream, b"+PONG\r\n");
}

#[test]
fn a_drain_sends_what_is_due() {
    let mut larder = over_ring(&[]);
    let value = value(100_000, 4);
    let mut stream = larder.stream();
    stream.write_all(&encode(&[b"SET", b"key", &value])).unwrap();
    expect(&mut stream, b"+OK\r\n");
    stream.write_all(&b"GET key\r\n".repeat(50)).unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    larder.signal(Signal::TERM);
    expect(&mut stream, &bulk(&value).repeat(50)[1..]);
    expect_end(&mut stream);
    let (status, _) = larder.wait();
    assert_eq!(status.code(), Some(0));
}

/// Starts a program that io_uring_setup(2), number 425 on all architectures, is refused to by
/// seccomp.
const REFUSE: &str = r#"
import ctypes, os, struct, sys
def step(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
# Load the number of the system call; 425: error EPERM; else allow (linux/filter.h, linux/seccomp.h).
code = step(0x20, 0, 0, 0) + step(0x15, 0, 1, 425) + step(0x06, 0, 0, 0x50001) + step(0x06, 0, 0, 0x7fff0000)
filter = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(filter)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn where_the_kernel_refuses_it_epoll_serves() {
    let log = log_where_refused("io-uring");
    assert_eq!(log.matches("the kernel refuses io_uring").count(), 1, "{log}");
    let log = log_where_refused("auto");
    assert!(!log.contains("io_uring"), "whoever wants no ring by name is not warned: {log}");
}

/// The log of a server that the kernel refuses io_uring to.
fn log_where_refused(transport: &str) -> String {
    let mut child = Command::new("python3")
        .args(["-c", REFUSE])
        .arg(binary())
        .args(["serve", &format!("--transport={transport}"), "--threads=2", "--max-memory=64MiB"])
        .args(["--redis=127.0.0.1:0", "--http=127.0.0.1:0", "--admin=127.0.0.1:0"])
        // It names no setting.
        .env_remove("LARDER_BIN")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    let address = ready["redis"][0].as_str().unwrap();
    let stream = connect(address.rsplit_once(':').unwrap().1.parse().unwrap());
    let answer = exchange(stream, b"INFO server\r\nQUIT\r\n");
    // The log is written by a thread of its own: a child that is killed may leave its last lines.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    child.wait().unwrap();
    assert!(answer.contains("multiplexing_api:epoll") && answer.ends_with("+OK\r\n"), "{answer}");
    log
}
