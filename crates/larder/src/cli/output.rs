//! Standard output.
use super::exit_codes::{FAILED, NO};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use clap::{Arg, ArgAction, ArgMatches};
use std::{
    fmt::{Display, Write as _},
    io::{self, Write as _},
    process::ExitCode,
};

/// Who reads standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    There,
    /// It has seen enough, like `head`: no failure, but nothing more needs to be written.
    Gone,
}

/// Writes to standard output.
pub(super) fn write_out(bytes: &[u8]) -> Result<Reader, String> {
    let mut out = io::stdout().lock();
    // At the end of the process a full disk would go unnoticed.
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(format!("cannot write to standard output: {error}")),
    }
}

/// Writes a command's whole output.
pub(super) fn print(text: &str) -> ExitCode {
    print_bytes(text.as_bytes())
}

/// Like `print`, for bytes.
pub(super) fn print_bytes(bytes: &[u8]) -> ExitCode {
    match write_out(bytes) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            complain(error);
            ExitCode::from(FAILED)
        }
    }
}

/// Writes a line to standard error. Where that is closed, the exit code still says it.
pub(super) fn complain(text: impl Display) {
    let _ = writeln!(io::stderr(), "larder: {text}");
}

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
    pub(super) document: serde_json::Value,
    /// The answer is no: exit code 1.
    pub(super) is_bad: bool,
}

impl Report {
    /// Writes it in the form that was asked for.
    pub(super) fn print(&self, matches: &ArgMatches) -> ExitCode {
        let printed = if matches.get_flag("json") { print_json(&self.document) } else { print(&self.text) };
        if self.is_bad && printed == ExitCode::SUCCESS { ExitCode::from(NO) } else { printed }
    }
}

/// Writes a document as one line of JSON.
pub(super) fn print_json(document: &serde_json::Value) -> ExitCode {
    print(&format!("{document}\n"))
}

/// Columns and rows of the terminal; `None`: standard output is something else.
pub(super) fn terminal() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    // A serial line does not know its size.
    Some(size).filter(|size| size.ws_col > 0 && size.ws_row > 0).map(|size| (size.ws_col.into(), size.ws_row.into()))
}

/// Appends a table. The columns of `words` are aligned to the left, numbers to the right.
pub(super) fn columns<const N: usize>(header: &[String; N], rows: &[[String; N]], words: &[usize], out: &mut String) {
    folded_columns(header, rows, words, usize::MAX, out);
}

/// Like `columns`, for a line of `width` columns: what does not fit beside the first column stands
/// in further tables below, each with that column.
pub(super) fn folded_columns<const N: usize>(
    header: &[String; N],
    rows: &[[String; N]],
    words: &[usize],
    width: usize,
    out: &mut String,
) {
    const GAP: usize = 2;
    let cells = |column: usize| rows.iter().chain([header]).map(move |row| row[column].chars().count());
    let widths: [usize; N] = std::array::from_fn(|column| cells(column).max().unwrap_or_default());
    let mut tables = vec![vec![0]];
    let mut used = widths[0];
    for (column, cell) in widths.into_iter().enumerate().skip(1) {
        let table = tables.last_mut().expect("there is always one");
        if used + GAP + cell > width && table.len() > 1 {
            tables.push(vec![0, column]);
            used = widths[0] + GAP + cell;
        } else {
            table.push(column);
            used += GAP + cell;
        }
    }
    for (number, table) in tables.into_iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        for row in [header].into_iter().chain(rows) {
            let mut line = String::new();
            for &column in &table {
                let (cell, width) = (&row[column], widths[column]);
                let _ = match words.contains(&column) {
                    true => write!(line, "{cell:<width$}  "),
                    false => write!(line, "{cell:>width$}  "),
                };
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_is_folded() {
        let header = ["name", "reads", "state"].map(str::to_owned);
        let rows = [["a", "1000000", "up"].map(str::to_owned)];
        let table = |width| {
            let mut out = String::new();
            folded_columns(&header, &rows, &[0, 2], width, &mut out);
            out
        };
        let whole = "name    reads  state\na     1000000  up\n";
        assert_eq!([table(usize::MAX), table(20)], [whole; 2]);
        assert_eq!(table(19), "name    reads\na     1000000\n\nname  state\na     up\n");
        // A column that does not fit at all is still there.
        assert_eq!(table(3), table(19));
    }
}
