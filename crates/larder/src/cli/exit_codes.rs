//! The exit codes of all commands, once for the code, the help, the manual page and the reference.
use std::fmt::Write as _;

/// The answer is no.
pub(super) const NO: u8 = 1;
/// Wrong usage or configuration.
pub(super) const USAGE: u8 = 2;
/// No answer, an error as the answer, or a failed write to standard output.
pub(super) const FAILED: u8 = 3;

/// Code and meaning, for a reader.
const TABLE: [(&str, &str); 5] = [
    ("0", "Done."),
    (
        "1",
        "The answer is no: no such key, not ready, a damaged or unreadable file. For `serve`: it ended with an error.",
    ),
    ("2", "Wrong command line or configuration. Standard error names every problem."),
    (
        "3",
        "No answer from the server, an error as the answer, or standard output cannot be written. For `table build`: no \
         table was built.",
    ),
    ("128+N", "A second signal N ended `serve` during the drain."),
];

/// The table for the end of a help text.
pub(super) fn help() -> String {
    let mut text = "Exit codes:".to_owned();
    for (code, meaning) in TABLE {
        let _ = write!(text, "\n  {code:<6} {meaning}");
    }
    text
}

/// The table as Markdown, for docs/reference/command-line.md.
pub(super) fn markdown() -> String {
    let rows = TABLE.map(|(code, meaning)| format!("| {code} | {meaning} |\n"));
    format!("| exit code | meaning |\n|---|---|\n{}", rows.concat())
}
