//! Settings: as typed, then checked.
//!
//! ```text
//!  flags ──┐
//!  LARDER_…┤            value.rs, by the        check.rs
//!  PROXY_… ┼─> Raw ───> table's kinds ──> Scope ────────> Settings (the rest of the server reads only this)
//!  file  ──┘ text+origin               value+origin └───> config print
//! ```
//!
//! One table ([`TABLE`]) names every setting and feeds parser, help, documentation and `config print`. Each value remembers where it
//! was typed; all problems are reported at once, each with its place. Nothing here reads the process's environment or arguments:
//! they are arguments ([`Input`]), and so is the machine.
mod address;
mod check;
mod commands;
mod docs;
mod env;
mod file;
pub mod flags;
mod machine;
mod print;
mod setting_value;
mod settings;
mod settings_table;
mod source_url;
mod suggestions;
mod typed_values;

pub use check::{Config, Effective, Scope};
pub use commands::{AccessSettings, Categories, CommandList};
pub use docs::docs;
pub use env::Env;
pub use machine::Machine;
pub use print::print;
pub use setting_value::Value;
pub use settings::{Coherence, GroupSettings, ListenerSettings, LogFormat, LogLevel, Rate, Secret, Settings};
pub use settings_table::{Fallback, Kind, Section, Setting, TABLE};
pub use source_url::{Deployment, RedisAddress, RedisUrl, SentinelUrl, SourceUrl, TlsUrl};
pub use suggestions::nearest;
pub use typed_values::{Layer, Origin, RawValue};

use std::{fmt, path::PathBuf};

/// Everything that a configuration is made of.
#[derive(Debug)]
pub struct Input<'a> {
    /// What [`flags::layer`] found.
    pub flags: Layer,
    /// `--config`; else `LARDER_CONFIG` is looked at.
    pub file: Option<PathBuf>,
    /// The environment.
    pub env: &'a Env,
    /// The machine.
    pub machine: &'a Machine,
}

/// What is wrong: one line per problem, each with its place.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError(pub Vec<String>);
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}
impl std::error::Error for ConfigError {}

/// Reads the file and checks everything; flag outweighs variable outweighs file outweighs default.
pub fn load(input: Input<'_>) -> Result<Config, ConfigError> {
    let mut problems = Vec::new();
    let mut raw = typed_values::Raw::default();
    raw.add_below(input.flags);
    raw.add_below(env::own(input.env, &mut problems));
    raw.add_below(env::foreign(input.env));
    let named = input.env.get(env::CONFIG).filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(path) = input.file.or(named) {
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let file = file::read(path, &text, &mut problems);
                raw.add_below(file.top);
                raw.groups = file.groups;
                raw.listeners = file.listeners;
            }
            Err(error) => problems.push(format!("{}: cannot be read: {error}", path.display())),
        }
    }
    check::check(&raw, input.machine, problems)
}

impl Settings {
    /// The settings as if these arguments of `larder serve` alone had been given: for embedding and tests.
    pub fn from_args(args: &[&str]) -> Result<Settings, ConfigError> {
        let command = clap::Command::new("larder").no_binary_name(true).args(flags::args());
        let matches = command.try_get_matches_from(args).map_err(|error| ConfigError(vec![error.to_string()]))?;
        let (file, flags) = flags::layer(&matches);
        let input = Input { flags, file, env: &Env::new(), machine: &Machine::detect() };
        load(input).map(|config| config.settings)
    }
}

#[cfg(test)]
mod tests;
