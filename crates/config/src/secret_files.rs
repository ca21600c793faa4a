//! Secrets that stand in files of their own.
use super::{
    effective_values::{EffectiveSettings, EffectiveValue},
    secret::Secret,
    setting_value::SettingValue,
    short_file::read_short_file,
};
use std::{io, path::Path};

/// Longest secret, with the end of its line.
const LONGEST: u64 = 64 * 1024;
/// What stands before the name of a file.
const FILE: char = '@';

/// Replaces each secret that names a file by the line of that file. The name is not shown: it may be a
/// password that begins with the sign.
pub(super) fn read_secret_files(top: &mut EffectiveSettings, problems: &mut Vec<String>) {
    for EffectiveValue { setting, values, origin } in &mut top.values {
        let Some(value) = values.first_mut() else { continue };
        let Some(path) = value.get::<Secret>().and_then(|secret| secret.strip_prefix(FILE)) else { continue };
        let why = match read(path) {
            Err(error) => format!("the file behind `{FILE}` cannot be read: {error}"),
            Ok(Err(why)) => format!("the file behind `{FILE}` {why}"),
            Ok(Ok(secret)) => {
                *value = SettingValue::new(Secret::from(secret));
                continue;
            }
        };
        problems.push(format!("{origin}: {}: {why}", setting.name));
    }
}

/// The line of a file; the inner error says what is wrong with it.
fn read(path: &str) -> io::Result<Result<String, &'static str>> {
    let Some(bytes) = read_short_file(Path::new(path), LONGEST)? else { return Ok(Err("is longer than 64 KiB")) };
    let Ok(text) = String::from_utf8(bytes) else { return Ok(Err("is not UTF-8")) };
    let line = text.strip_suffix('\n').map_or(&*text, |line| line.strip_suffix('\r').unwrap_or(line));
    Ok(match line {
        "" => Err("is empty"),
        line if line.contains(['\n', '\r']) => Err("has more than one line"),
        line => Ok(line.to_owned()),
    })
}
