//! Secrets that stand in files of their own.
use super::{effective_values::EffectiveSettings, setting_value::SettingValue, short_file::read_short_file};
use std::{io, path::Path};

/// Longest secret, with the end of its line.
const LONGEST: u64 = 64 * 1024;
/// Each secret, and the setting that names its file.
const FILES: [(&str, &str); 3] = [
    ("password", "password-file"),
    ("peer-secret", "peer-secret-file"),
    ("replication-secret", "replication-secret-file"),
];

/// Gives the secrets of files to the settings whose values they are, so that nothing else has to
/// know of files.
pub(super) fn read_secret_files(top: &mut EffectiveSettings, problems: &mut Vec<String>) {
    for (name, file) in FILES {
        let Some(path) = top.text(file).map(str::to_owned) else { continue };
        let origin = top.effective(file).origin.clone();
        let secret = match read(&path) {
            _ if top.one(name).is_some() => Err(format!("cannot be set together with {name}")),
            Err(error) => Err(format!("cannot read {path}: {error}")),
            Ok(Err(why)) => Err(format!("{path} {why}")),
            Ok(Ok(secret)) => Ok(secret),
        };
        let effective = top.values.iter_mut().find(|effective| effective.setting.name == name);
        match (secret, effective) {
            (Ok(secret), Some(effective)) => {
                effective.values = vec![SettingValue::Secret(secret.into())];
                effective.origin = origin;
            }
            (Ok(_), None) => {}
            (Err(why), _) => problems.push(format!("{origin}: {file}: {why}")),
        }
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
