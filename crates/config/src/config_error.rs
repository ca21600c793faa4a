//! The error of a configuration that cannot be used.
use std::fmt;

/// What is wrong: one line per problem, each with its place.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError(pub Vec<String>);
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}
impl std::error::Error for ConfigError {}
