//! The tables of `docs/compatibility.md` that the tests write, each between `<!-- NAME -->` and
//! `<!-- end -->`. A row is found by its first cell. With `UPDATE_DOCS=1` a row that differs is
//! written. Delete a row that no test knows by hand.
use std::{fs, path::Path, sync::Mutex};

/// Tests write one at a time.
static WRITING: Mutex<()> = Mutex::new(());

/// Reads a table, and writes what `change` makes of its lines.
fn with_table(name: &str, change: impl FnOnce(&mut Vec<String>)) {
    let _alone = WRITING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let text = fs::read_to_string(&path).unwrap();
    let open = format!("<!-- {name} -->\n");
    let (before, rest) = text.split_once(&open).expect("the mark of the table");
    let (table, after) = rest.split_once("<!-- end -->").expect("its end");
    let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
    let old = lines.clone();
    change(&mut lines);
    if lines != old && std::env::var_os("UPDATE_DOCS").is_some() {
        let table = lines.join("\n");
        fs::write(&path, format!("{before}{open}{table}\n<!-- end -->{after}")).unwrap();
        return;
    }
    assert_eq!(old, lines, "docs/compatibility.md is out of date. Type: UPDATE_DOCS=1 make test-clients");
}

fn line(cells: &[&str]) -> String {
    format!("| {} |", cells.join(" | "))
}
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// The page has the versions of Debian 12's packages. Another system has others.
fn is_debian_12() -> bool {
    fs::read_to_string("/etc/debian_version").is_ok_and(|version| version.starts_with("12"))
}

/// Demands a row. `is_debians`: the second cell is the version of a package.
pub(super) fn row(table: &str, wanted: &[&str], is_debians: bool) {
    with_table(table, |lines| {
        let at = lines.iter().position(|line| cells(line)[0] == wanted[0]);
        let mut wanted = wanted.to_vec();
        match at {
            Some(at) => {
                let old = lines[at].clone();
                if is_debians && !is_debian_12() {
                    wanted[1] = cells(&old)[1];
                }
                lines[at] = line(&wanted);
            }
            None => lines.push(line(&wanted)),
        }
    });
}

/// Demands the head of a table, and the first cells of its rows.
pub(super) fn rows(table: &str, head: &[&str], names: &[&str]) {
    with_table(table, |lines| {
        if is_debian_12() {
            lines[0] = line(head);
            lines[1] = format!("|{}", "---|".repeat(head.len()));
        }
        let mut rows = lines.split_off(2);
        // The order of the names; others come last.
        rows.sort_by_key(|row| names.iter().position(|name| *name == cells(row)[0]).unwrap_or(names.len()));
        lines.extend(rows);
        if std::env::var_os("UPDATE_DOCS").is_none() {
            let found: Vec<&str> = lines[2..].iter().map(|row| cells(row)[0]).collect();
            assert_eq!(found, names, "rows of docs/compatibility.md");
        }
    });
}
