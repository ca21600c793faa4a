//! What Larder says to a server to be let in: the password of the URL, or that of a file, which is
//! read again when the server refuses it. So a password may change without a restart. Connections
//! that are let in stay so.
use larder_base::telemetry::LogLimiter;
use larder_config::{RedisUrl, Secret, read_short_file};
use parking_lot::Mutex;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// Maximum size of a password file.
const MAX_LEN: u64 = 64 * 1024;
/// Shortest interval between log lines.
const PERIOD: Duration = Duration::from_secs(10);

/// A password that may change.
#[derive(Debug)]
pub(super) struct Password {
    file: Option<PathBuf>,
    current: Mutex<Option<Secret>>,
    refused: LogLimiter,
}

impl Password {
    /// # Errors
    /// The file cannot be read; it is named.
    pub(super) fn new(url: &RedisUrl) -> Result<Password, String> {
        let current = match &url.password_file {
            None => url.password.clone(),
            Some(file) => read(file)?,
        };
        Ok(Password { file: url.password_file.clone(), current: Mutex::new(current), refused: LogLimiter::new(PERIOD) })
    }

    /// The password that a client gave, if any; there is no file to read again.
    pub(super) fn fixed(password: Option<Secret>) -> Password {
        Password { file: None, current: Mutex::new(password), refused: LogLimiter::new(PERIOD) }
    }

    /// The current password, if there is one.
    pub(super) fn current(&self) -> Option<Secret> {
        self.current.lock().clone()
    }

    /// Sets the password that the server now expects; empty: none.
    pub(super) fn set(&self, password: &[u8]) {
        let text = String::from_utf8_lossy(password).into_owned();
        *self.current.lock() = (!text.is_empty()).then(|| text.into());
    }

    /// The server refused the password `said`. Reads the file again; true if the password is now
    /// another.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) async fn renew(&self, said: Option<&Secret>) -> Result<bool, String> {
        if let Some(file) = self.file.clone() {
            // A file may be on a slow disk, and this thread serves clients.
            let read = tokio::task::spawn_blocking(move || read(&file)).await;
            *self.current.lock() = read.map_err(|error| error.to_string())??;
        }
        Ok(self.current.lock().as_ref() != said)
    }

    /// The error text after the server refused the password: its own words and what to do. Logs it,
    /// too.
    pub(super) fn explain(&self, refusal: &str, unread: Option<String>) -> Arc<str> {
        // The file's path is for the operator, so it goes only to the log.
        let why = match (&self.file, &unread) {
            (_, Some(_)) => "the source refuses the password, and password-file cannot be read",
            (Some(_), None) => "the source refuses the password in password-file",
            (None, None) if self.current.lock().is_some() => "the source refuses the password in its URL",
            (None, None) => "the source wants a password: give one in its URL or its password-file",
        };
        if let Some(left_out) = self.refused.due(Instant::now()) {
            let file = self.file.as_deref().map(Path::display);
            tracing::warn!(%refusal, password_file = file.map(tracing::field::display), unread, not_logged = left_out, "{why}");
        }
        format!("{refusal} ({why})").into()
    }
}

/// Whether an error says that the server needs another password.
pub(super) fn is_wanted(error: &str) -> bool {
    // The third is the error of versions before 6.
    ["NOAUTH ", "WRONGPASS ", "ERR invalid password"].iter().any(|begin| error.starts_with(begin))
}
/// Whether an error to `AUTH` says that the server needs no password. Commands then work without
/// one.
pub(super) fn is_needless(error: &str) -> bool {
    error.contains("without any password configured") || error.contains("no password is set")
}

/// The file's text without its line end; `None` if it is empty.
fn read(file: &Path) -> Result<Option<Secret>, String> {
    let failed = |why: String| format!("cannot read the password-file {}: {why}", file.display());
    let text = read_short_file(file, MAX_LEN).map_err(|error| failed(error.to_string()))?;
    let text = text.ok_or_else(|| failed(format!("it is longer than {MAX_LEN} bytes")))?;
    let mut text = String::from_utf8(text).map_err(|_| failed("it is not UTF-8".to_owned()))?;
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    Ok((!text.is_empty()).then(|| text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_one_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("password");
        for (text, expected) in
            [("secret", Some("secret")), ("s p\r\n", Some("s p")), ("\n", None), ("", None), (" x\n\n", Some(" x"))]
        {
            std::fs::write(&file, text).expect("a file");
            assert_eq!(read(&file).expect("it reads").as_deref(), expected, "{text:?}");
        }
        std::fs::write(&file, b"\xff").expect("a file");
        assert!(read(&file).expect_err("no text").ends_with(": it is not UTF-8"));
        std::fs::write(&file, vec![b'x'; 64 * 1024 + 1]).expect("a file");
        assert!(read(&file).expect_err("too long").ends_with(": it is longer than 65536 bytes"));
        std::fs::remove_file(&file).expect("a file");
        let error = read(&file).expect_err("no file");
        assert!(error.starts_with("cannot read the password-file /") && error.contains("No such file"), "{error}");
    }
}
