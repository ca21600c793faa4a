//! `larder-bench`: the programs that measure Larder beside its rivals.
//!
//! Each program prints one JSON object per line on standard output. Its `--help` says what it
//! measures and how.
//!
//! - [`programs`]: one file or folder for each subcommand. A program imports only from `lib`.
//! - [`mod@lib`]: what the programs share. It imports no program.
//!
//! A *rival* is a system that Larder is compared with: a server, a cache in this process, or a load
//! generator.
#![expect(special_module_name, reason = "lib is a folder of modules, not a library crate")]

mod lib;
mod programs;

use clap::Parser;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Standard output, with whether its reader has seen enough, like `head`: that is no failure.
struct Output {
    out: io::Stdout,
    is_closed: bool,
}

impl Output {
    fn noticed<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.is_closed |= result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.out.write(bytes);
        self.noticed(result)
    }
    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.noticed(result)
    }
}

fn main() -> ExitCode {
    let mut output = Output { out: io::stdout(), is_closed: false };
    let done = programs::Program::parse().run(&mut output).and_then(|()| Ok(output.flush()?));
    match done {
        Err(error) if !output.is_closed => {
            eprintln!("larder-bench: {error:#}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
