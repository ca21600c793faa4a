//! The users file: one user a line, as in Redis's `aclfile`. Empty lines and lines that begin with
//! `#` say nothing.
use super::{
    command_catalog::CommandCatalog,
    user::{RejectedRule, User},
};
use larder_config::read_short_file;
use larder_store::atomic_files;
use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

/// Longest file that is read.
const LONGEST: u64 = 64 * 1024 * 1024;

/// Reads the users of a file.
///
/// # Errors
/// What is wrong, for each line that is wrong. No password is shown.
pub(super) fn read(path: &Path, catalog: &CommandCatalog) -> Result<Vec<User>, Vec<String>> {
    let shown = path.display();
    let cannot = |error: &dyn std::fmt::Display| vec![format!("cannot read {shown}: {error} (users-file)")];
    let text = read_short_file(path, LONGEST).map_err(|error| cannot(&error))?;
    let text = text.ok_or_else(|| cannot(&"the file is longer than 64 MiB"))?;
    let (mut users, mut problems) = (Vec::<User>::new(), Vec::new());
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        match parse(line, catalog) {
            Ok(user) if users.iter().any(|other| other.name == user.name) => {
                problems.push(format!("{shown}:{}: user {} is there twice", at + 1, user.name));
            }
            Ok(user) => users.push(user),
            Err(why) => problems.push(format!("{shown}:{}: {why}", at + 1)),
        }
    }
    if problems.is_empty() { Ok(users) } else { Err(problems) }
}

fn parse(line: &[u8], catalog: &CommandCatalog) -> Result<User, String> {
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    if words.next() != Some(b"user") {
        return Err("a line begins with `user NAME`".to_owned());
    }
    let name = words.next().ok_or("the name of the user is missing")?;
    let name = std::str::from_utf8(name).map_err(|_| "the name of the user is not UTF-8")?;
    let rules: Vec<&[u8]> = words.collect();
    User::new(name, catalog).changed(&rules, catalog).map_err(|rejected| match rejected {
        RejectedRule::Rule { rule, error } => format!("user {name}: `{}`: {error}", shown(&rule)),
        RejectedRule::Unmatched(_) => format!("user {name}: a selector `(…` does not end"),
        RejectedRule::NoRoom { .. } => unreachable!("only `Users::set` bounds what users occupy"),
    })
}

/// A rule, without the password or hash that it may have.
fn shown(rule: &[u8]) -> String {
    match rule.first() {
        Some(sign @ (b'>' | b'<' | b'#' | b'!')) => format!("{}…", char::from(*sign)),
        _ => String::from_utf8_lossy(rule).into_owned(),
    }
}

/// Writes the users to a file, which is replaced as a whole and which only its owner may read.
pub(super) fn write<'u>(path: &Path, users: impl Iterator<Item = &'u User>) -> io::Result<()> {
    let mut text = Vec::new();
    for user in users {
        text.extend_from_slice(&user.line());
        text.push(b'\n');
    }
    // Links stay (Kubernetes); the file that they name is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    atomic_files::write_with(path, |file| {
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        file.write_all(&text)
    })
}
