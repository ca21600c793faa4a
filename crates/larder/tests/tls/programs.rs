//! Other people's TLS clients, run as programs.
use super::{
    certificates::{Authority, Files},
    larder::Larder,
};
use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Larder with a TLS listener of each kind for HTTP and the Redis protocol, and these arguments.
pub fn larder(files: &[&Files], more: &[&str]) -> Larder {
    let flags: Vec<String> = files.iter().flat_map(|files| files.flags()).collect();
    let listeners = ["--https=127.0.0.1:0", "--rediss=127.0.0.1:0"];
    let args: Vec<&str> = flags.iter().map(String::as_str).chain(listeners).chain(more.iter().copied()).collect();
    Larder::start(&args)
}

/// What a program says and how it ends, with this on its standard input.
pub fn run(program: &str, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} is installed: {error}"));
    // A program that ends early does not read all of it.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// What it says on standard output; it must succeed.
#[track_caller]
pub fn output(program: &str, args: &[&str], input: &[u8]) -> String {
    let output = run(program, args, input);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {:?}\n{out}{err}", output.status);
    out.into_owned()
}

/// curl's arguments for a host name that leads to the listener.
pub fn curl_args<'a>(ca: &'a Path, connect: &'a str) -> Vec<&'a str> {
    vec!["--silent", "--show-error", "--max-time", "60", "--cacert", ca.to_str().unwrap(), "--connect-to", connect]
}

/// `GET` by curl of a path at a host that resolves to the listener: standard output.
#[track_caller]
pub fn curl(authority: &Authority, port: u16, host: &str, path: &str, more: &[&str]) -> String {
    let (ca, connect) = (authority.file(), format!("::127.0.0.1:{port}"));
    let url = format!("https://{host}:{port}{path}");
    let args = [&curl_args(&ca, &connect)[..], more, &[&url]].concat();
    output("curl", &args, b"")
}

/// `redis-cli --tls` with one command: what it prints.
#[track_caller]
pub fn redis_cli(authority: &Authority, port: u16, more: &[&str], command: &[&str]) -> String {
    let (ca, port) = (authority.file(), port.to_string());
    let to = ["-h", "127.0.0.1", "-p", &port, "--tls", "--cacert", ca.to_str().unwrap()];
    output("redis-cli", &[&to[..], more, command].concat(), b"")
}

/// `openssl s_client` with this input: what it says on both outputs.
pub fn openssl(port: u16, more: &[&str], input: &[u8]) -> String {
    let to = format!("127.0.0.1:{port}");
    let output = run("openssl", &[&["s_client", "-connect", &to][..], more].concat(), input);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}
