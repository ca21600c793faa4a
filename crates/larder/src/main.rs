//! `larder`: arguments, configuration, rooms, run, drain.
use std::process::ExitCode;

fn main() -> ExitCode {
    larder::cli::main(std::env::args_os(), std::env::vars_os())
}
