//! The command line from outside: configuration commands, exit codes, the client.

use crate::{common, larder};

mod client;
mod config;
mod json;
mod messages;
mod progress;
mod running_server;
mod service_manager;

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

/// How a run of the binary ended, and what it said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) error: String,
}
impl Run {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }
}

/// Runs `larder` with these arguments, variables (and no others) and standard input.
pub(crate) fn run(args: &[&str], vars: &[(&str, &str)], input: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(args)
        .env_clear()
        .envs(vars.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end without reading.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    Run { code: output.status.code().unwrap(), out: output.stdout, error: String::from_utf8(output.stderr).unwrap() }
}
