//! `larder`: arguments, configuration, rooms, run, drain.
use std::process::ExitCode;

/// Connections come and go on several threads: an allocator with a heap per thread that gives memory back suits that, and
/// the binary stays the same on every libc.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    larder::cli::main(std::env::args_os(), std::env::vars_os())
}
