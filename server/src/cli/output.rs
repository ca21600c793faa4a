//! Standard output.
use super::exit_codes::NO;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use clap::{Arg, ArgAction, ArgMatches};
use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

/// Writes a command's whole output.
pub(super) fn print(text: &str) -> ExitCode {
    print_bytes(text.as_bytes())
}

/// The same of bytes.
pub(super) fn print_bytes(bytes: &[u8]) -> ExitCode {
    // A reader that has seen enough (`| head`) is no failure of ours.
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("larder: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// `--json`
pub(super) fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON document on one line")
}

/// Bytes in a document: a string, or `{"base64": …}` (RFC 4648, padded) where they are not UTF-8.
pub(super) fn json_text(bytes: &[u8]) -> serde_json::Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => serde_json::json!({ "base64": BASE64_STANDARD.encode(bytes) }),
    }
}

/// What a command has found, for a person and for a program.
pub(super) struct Report {
    pub(super) text: String,
    /// With `--json`.
    pub(super) document: serde_json::Value,
    /// The answer is no: exit code 1.
    pub(super) is_bad: bool,
}

impl Report {
    /// Writes it in the form that was asked for.
    pub(super) fn print(&self, matches: &ArgMatches) -> ExitCode {
        let printed = if matches.get_flag("json") { print_json(&self.document) } else { print(&self.text) };
        if self.is_bad { ExitCode::from(NO) } else { printed }
    }
}

/// Writes a document as one line of JSON.
pub(super) fn print_json(document: &serde_json::Value) -> ExitCode {
    print(&format!("{document}\n"))
}

/// Writes a piece of a value to standard output.
pub(super) fn put_out(bytes: &[u8]) -> Result<(), String> {
    match io::stdout().lock().write_all(bytes) {
        // A reader that has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| format!("standard output: {error}")),
    }
}

/// Appends a table. The columns of `words` are aligned to the left, numbers to the right.
pub(super) fn columns<const N: usize>(header: &[String; N], rows: &[[String; N]], words: &[usize], out: &mut String) {
    let width = |column: usize| {
        let cells = rows.iter().chain([header]).map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    for row in [header].into_iter().chain(rows) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let _ = match words.contains(&column) {
                true => write!(line, "{cell:<width$}  "),
                false => write!(line, "{cell:>width$}  "),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}
