//! A file of credentials in the format of Amazon's tools: the key pair of the profile `default`, or
//! of the one that `AWS_PROFILE` names (<https://docs.aws.amazon.com/cli/v1/userguide/cli-configure-files.html>).
use std::{fs, path::Path};

/// A key pair, and a session's token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

/// Reads the file. It is read for each save, so keys can be changed.
///
/// # Errors
/// A text that names the setting, the file and the profile.
pub(super) fn credentials_of(file: &Path) -> Result<Credentials, String> {
    let at = |what: &str| format!("snapshot-file: credentials={}: {what}", file.display());
    let text = fs::read_to_string(file).map_err(|error| at(&error.to_string()))?;
    let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
    parse(&text, &profile).map_err(|missing| at(&format!("profile `{profile}` has no {missing}")))
}

/// What is missing is the error.
fn parse(text: &str, profile: &str) -> Result<Credentials, &'static str> {
    let mut section = "";
    let [mut id, mut secret, mut token] = [None, None, None];
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim();
        } else if let (true, Some((name, value))) = (section == profile, line.split_once('=')) {
            let value = Some(value.trim().to_owned());
            match name.trim() {
                "aws_access_key_id" => id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Ok(Credentials { id: id.ok_or("aws_access_key_id")?, secret: secret.ok_or("aws_secret_access_key")?, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_read_and_what_is_missing_is_named() {
        let text = "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=b/c=\n\n[ other ]\naws_access_key_id=O\n aws_secret_access_key = s\naws_session_token = t\nregion = x\n[half]\naws_access_key_id = H\n";
        let of = |id: &str, secret: &str, token: Option<&str>| Credentials {
            id: id.to_owned(),
            secret: secret.to_owned(),
            token: token.map(str::to_owned),
        };
        assert_eq!(parse(text, "default"), Ok(of("A", "b/c=", None)));
        assert_eq!(parse(text, "other"), Ok(of("O", "s", Some("t"))));
        assert_eq!(parse(text, "half"), Err("aws_secret_access_key"));
        assert_eq!(parse(text, "none"), Err("aws_access_key_id"));
    }
}
