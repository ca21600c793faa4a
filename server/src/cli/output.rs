//! Standard output.
use std::{
    io::{self, Write as _},
    process::ExitCode,
};

/// Writes a command's whole output.
pub(super) fn print(text: &str) -> ExitCode {
    // A reader that has seen enough (`| head`) is no failure of ours.
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("larder: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Writes a piece of a value to standard output.
pub(super) fn put_out(bytes: &[u8]) -> Result<(), String> {
    match io::stdout().lock().write_all(bytes) {
        // A reader that has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| format!("standard output: {error}")),
    }
}
