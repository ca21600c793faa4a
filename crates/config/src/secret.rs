//! Text that is not shown.
use std::{fmt, ops::Deref};

/// Text that must not reach a log: it shows as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);
impl Deref for Secret {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(text)
    }
}
impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret(text.to_string())
    }
}
