//! Reads flags, environment and file, one layer under the other, and has everything checked.
use super::{
    check_settings::{self, CheckedConfig},
    command_line_flags::{flag_args, flag_layer},
    config_error::ConfigError,
    env_variables::{self, Env},
    machine_limits::Machine,
    raw_settings::{Layer, RawSettings},
    removed_settings::removed_flags,
    settings::Settings,
    toml_file,
};
use std::{fmt, path::PathBuf};

/// Everything that a configuration is made of. It is kept, so that the file can be read again.
#[derive(Clone, PartialEq)]
pub struct ConfigInput {
    /// What [`flag_layer`] found.
    pub flags: Layer,
    /// `--config`; else `LARDER_CONFIG` is looked at.
    pub file: Option<PathBuf>,
    /// The environment.
    pub env: Env,
    /// The machine.
    pub machine: Machine,
}

/// Without flags and variables, which hold secrets.
impl fmt::Debug for ConfigInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigInput").field("file", &self.file).field("machine", &self.machine).finish_non_exhaustive()
    }
}

/// Reads the file and checks everything; flag outweighs variable outweighs file outweighs default.
pub fn load_config(input: ConfigInput) -> Result<CheckedConfig, ConfigError> {
    let mut problems = Vec::new();
    removed_flags(&input.flags, &mut problems);
    let mut raw = RawSettings::default();
    raw.add_below(input.flags.clone());
    raw.add_below(env_variables::own(&input.env, &mut problems));
    raw.add_below(env_variables::foreign(&input.env));
    let from_env = input.env.get(env_variables::CONFIG).filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(path) = input.file.clone().or(from_env) {
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let file = toml_file::read(path, &text, &mut problems);
                raw.add_below(file.top);
                raw.prefixes = file.prefixes;
                raw.groups = file.groups;
                raw.listeners = file.listeners;
            }
            Err(error) => {
                let setting = if input.file.is_some() { "--config" } else { env_variables::CONFIG };
                problems.push(format!("{}: cannot be read ({setting}): {error}", path.display()));
            }
        }
    }
    let peers = raw.top.get("peers").and_then(|peers| peers.texts.first()).cloned();
    env_variables::check_peers_type(&input.env, peers.as_deref(), &mut problems);
    if let Some(peers) = peers {
        raw.add_below(env_variables::of_pods(&input.env, &peers));
    }
    check_settings::check(&raw, input, problems)
}

impl Settings {
    /// The settings as if these arguments of `larder serve` alone had been given: for embedding and
    /// tests.
    pub fn from_args(args: &[&str]) -> Result<Settings, ConfigError> {
        let command = clap::Command::new("larder").no_binary_name(true).args(flag_args());
        let matches = command.try_get_matches_from(args).map_err(|error| ConfigError(vec![error.to_string()]))?;
        let (file, flags) = flag_layer(&matches);
        let input = ConfigInput { flags, file, env: Env::new(), machine: Machine::detect() };
        load_config(input).map(|config| config.settings)
    }
}
