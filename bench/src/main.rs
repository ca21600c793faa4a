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
use std::process::ExitCode;

fn main() -> ExitCode {
    match programs::Program::parse().run(&mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("larder-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
