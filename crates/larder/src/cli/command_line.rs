//! The whole command line, and `larder serve` and `larder config`.
use super::{
    cassandra_commands,
    client_commands::{self, URL_VARIABLE},
    copy_command, examples,
    exit_codes::{self, USAGE},
    output::{self, complain, print, print_json},
    served_table::{self, ServedData},
    shell_files, snapshot_commands, store_commands, table_commands,
};
use crate::net;
use clap::{
    Arg, ArgAction, ArgMatches, Command,
    error::{ContextKind, ContextValue, ErrorKind},
    value_parser,
};
use larder_base::{lifecycle::RunError, telemetry::Logs};
use larder_config::{
    CheckedConfig, ConfigError, ConfigInput, Env, Machine, RawValue, SettingOrigin, SourceUrl, flag_args, flag_layer,
};
use serde_json::json;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Runs the program.
pub fn main(args: impl Iterator<Item = OsString>, vars: impl Iterator<Item = (OsString, OsString)>) -> ExitCode {
    // For the reference only; completions and manual pages leave it out.
    let exit_codes = Command::new("exit-codes").about("Print the exit codes as Markdown").hide(true);
    let args = with_serve(args);
    let matches = match command().subcommand(exit_codes).try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(mut error) => {
            suggest(&mut error, &args);
            // Help and version are "errors" that go to standard output and are no failure.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(USAGE),
            };
        }
    };
    match matches.subcommand() {
        Some(("serve", matches)) => {
            match misplaced(matches)
                .and_then(|()| served_table::served(matches))
                .and_then(|table| configured(matches, table, vars))
            {
                Ok(config) => serve(config),
                Err(error) => refuse(&error),
            }
        }
        Some(("config", matches)) => match matches.subcommand() {
            Some(("docs", _)) => print(&larder_config::reference_page()),
            Some(("sample", _)) => print(&larder_config::sample_file()),
            Some(("convert", matches)) => convert(matches),
            Some(("diff", matches)) => client_commands::run_config_diff(matches),
            Some((what, matches)) => show_config(what, matches, configured(matches, None, vars)),
            None => unreachable!("clap demands a subcommand"),
        },
        Some(("copy", matches)) => copy_command::run(matches),
        Some(("cassandra", matches)) => cassandra_commands::run(matches),
        Some(("postgres", matches)) => match matches.subcommand() {
            Some((_, matches)) => show_triggers(configured(matches, None, vars)),
            None => unreachable!("clap demands a subcommand"),
        },
        Some(("snapshot", matches)) => snapshot_commands::run(matches),
        Some(("store", matches)) => store_commands::run(matches),
        Some(("peers", matches)) => client_commands::run_peers(matches),
        Some(("table", matches)) => table_commands::run(matches),
        Some(("health", matches)) => client_commands::run_health(matches),
        Some(("status", matches)) => client_commands::run_status(matches),
        Some(("top", matches)) => client_commands::run_top(matches),
        Some(("advise", matches)) => client_commands::run_advise(matches),
        Some(("completions", matches)) => shell_files::completions(matches, command()),
        Some(("man", matches)) => shell_files::man(matches, command()),
        Some(("exit-codes", _)) => print(&exit_codes::markdown()),
        Some((name, matches)) => client_commands::run(name, matches),
        None => unreachable!("clap demands a subcommand"),
    }
}

/// The whole command line.
pub(super) fn command() -> Command {
    const PRECEDENCE: &str = "Every setting may also be given as an environment variable (LARDER_MAX_MEMORY for --max-memory) or in the \
        file (max-memory = \"64MiB\"). A flag overrides a variable, and a variable overrides the file.";
    let serve = Command::new("serve")
        .about("Serve (the default command)")
        .args(served_table::args())
        .args(flag_args())
        .after_help("These are the most common settings. `larder serve --help` has all of them.")
        .after_long_help(PRECEDENCE);
    let config = Command::new("config")
        .about("Check, show or document the configuration")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("check")
                .about("Check flags, environment and file like serve, and list the errors")
                .args(flag_args())
                .arg(output::json()),
        )
        .subcommand(
            Command::new("print")
                .about("Print the effective values as TOML, with the origin of each")
                .args(flag_args())
                .args([
                    Arg::new("changed")
                        .long("changed")
                        .action(ArgAction::SetTrue)
                        .help("Print only settings that are set, not those that have their defaults"),
                    output::json(),
                ]),
        )
        .subcommand(
            Command::new("convert")
                .about("Convert a GCache configuration file to Larder's, with comments for keys without a counterpart")
                .arg(
                    Arg::new("file")
                        .value_name("FILE")
                        .required(true)
                        .value_parser(value_parser!(PathBuf))
                        .help("GCache's TOML file"),
                ),
        )
        .subcommand(client_commands::config_diff_command())
        .subcommand(Command::new("sample").about("Print a configuration file with every setting as a comment"))
        .subcommand(Command::new("docs").about("Print the reference of all settings as Markdown"));
    let postgres = Command::new("postgres")
        .about("Prepare a PostgreSQL database")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("triggers")
                .about("Print the triggers that announce changes (changes=notify), for psql")
                .args(flag_args()),
        );
    let larder = Command::new("larder")
        .about("A read-through cache and key-value server")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .subcommand(serve)
        .subcommands(client_commands::commands())
        .subcommand(client_commands::peers_command())
        .subcommand(snapshot_commands::command())
        .subcommand(store_commands::command())
        .subcommand(table_commands::command())
        .subcommand(copy_command::command())
        .subcommands(client_commands::server_commands())
        .subcommand(client_commands::advise_command())
        .subcommand(config)
        .subcommand(postgres)
        .subcommand(cassandra_commands::command())
        .subcommands(shell_files::commands())
        .after_help(format!(
            "`larder` without a command is `larder serve`. `larder serve --help` lists its options.\n\n{}",
            exit_codes::help()
        ));
    examples::add(larder)
}

/// Names the flag that was meant where another program's name for it is too far from Larder's for
/// the usual suggestion.
fn suggest(error: &mut clap::Error, args: &[OsString]) {
    const OTHERS: [(&str, &str); 12] = [
        ("--port", "--redis"),
        ("-p", "--redis"),
        ("--bind", "--redis"),
        ("--host", "--http"),
        ("--listen", "--http"),
        ("--backend", "--source"),
        ("--origin", "--source"),
        ("--upstream", "--source"),
        ("--maxclients", "--max-connections"),
        ("--maxmemory", "--max-memory"),
        ("--maxmemory-policy", "--eviction"),
        ("--requirepass", "--password"),
    ];
    match (error.kind(), error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(typed)), _) => {
            if let Some((_, meant)) = OTHERS.iter().find(|(other, _)| other == typed) {
                error.insert(ContextKind::SuggestedArg, ContextValue::String((*meant).to_owned()));
                // They are made of the usual suggestion.
                error.remove(ContextKind::Usage);
                error.remove(ContextKind::Suggested);
            } else if ["-v", "-V", "--version"].contains(&typed.as_str()) {
                error.remove(ContextKind::Usage);
                tip(error, "for the version: larder --version".to_owned());
            } else if let Some(name) = late_command(args) {
                error.remove(ContextKind::Usage);
                error.remove(ContextKind::SuggestedArg);
                tip(error, format!("a command comes before its options: larder {name} --option"));
            }
        }
        // A message about `--url` must name the place of the value.
        (ErrorKind::ValueValidation, Some(ContextValue::String(flag)), Some(ContextValue::String(value)))
            if flag.starts_with("--url")
                && std::env::var(URL_VARIABLE).is_ok_and(|of_variable| of_variable == *value) =>
        {
            tip(error, format!("the value is that of the variable {URL_VARIABLE}; --url overrides it"));
        }
        (ErrorKind::InvalidSubcommand, ..) => {
            let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return };
            if typed == "version" {
                tip(error, "for the version: larder --version".to_owned());
            } else if typed.contains("://") {
                let typed = format!("larder --source {typed}");
                tip(error, format!("to serve from a source: {typed}"));
            } else if Path::new(typed).is_file() {
                let typed = format!("larder serve {typed}");
                tip(error, format!("to serve a table or a data file: {typed}"));
            }
        }
        _ => {}
    }
}

/// The command of `larder --option value command`, to which `serve` was added.
fn late_command(args: &[OsString]) -> Option<String> {
    let larder = command();
    let is_added = args.get(1).is_some_and(|first| first == "serve");
    let mut words = args.iter().skip(2).filter(|_| is_added).filter_map(|word| word.to_str());
    words.find(|word| larder.find_subcommand(word).is_some()).map(str::to_owned)
}

/// Refuses what reads like a data file and is none: the command of `larder --option value command`,
/// and the unit of `--max-memory 1 GB`.
fn misplaced(matches: &ArgMatches) -> Result<(), ConfigError> {
    let Some(data) = matches.get_one::<PathBuf>("data").filter(|data| !data.exists()) else { return Ok(()) };
    let name = data.display();
    let hint = if command().find_subcommand(data).is_some() {
        format!("as a command it comes before its options: larder {name} --option")
    } else if data.to_str().is_some_and(is_unit) {
        format!("a size or a duration is one word: 64{name}, not 64 {name}")
    } else {
        return Ok(());
    };
    Err(ConfigError(vec![format!("{name}: no such data file; {hint}")]))
}

/// Whether a number before this word makes it a size or a duration.
fn is_unit(word: &str) -> bool {
    let quantity = format!("1{word}");
    !word.starts_with(|first: char| first.is_ascii_digit())
        && (["k", "m", "g", "t"].iter().any(|letter| word.eq_ignore_ascii_case(letter))
            || larder_units::parse_size(&quantity).is_ok()
            || larder_units::parse_short_duration(&quantity).is_ok())
}

fn tip(error: &mut clap::Error, text: String) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![text.into()]));
}

/// `larder config check` and `larder config print`
fn show_config(what: &str, matches: &ArgMatches, config: Result<CheckedConfig, ConfigError>) -> ExitCode {
    let is_json = matches.get_flag("json");
    match config {
        Ok(mut config) if what == "print" => {
            if matches.get_flag("changed") {
                config.leave_out_defaults();
            }
            match is_json {
                true => print_json(&json!({ "settings": larder_config::shown_settings(&config) })),
                false => print(&larder_config::print_config(&config)),
            }
        }
        Ok(config) if is_json => print_json(&json!({ "valid": true, "warnings": config.warnings })),
        Ok(config) => {
            for warning in &config.warnings {
                complain(format_args!("warning: {warning}"));
            }
            print("The configuration is valid.\n")
        }
        Err(error) if what == "check" && is_json => {
            print_json(&json!({ "valid": false, "problems": error.0 }));
            ExitCode::from(USAGE)
        }
        Err(error) => refuse(&error),
    }
}

/// `larder postgres triggers`
fn show_triggers(config: Result<CheckedConfig, ConfigError>) -> ExitCode {
    match config {
        Ok(config) => {
            let groups = config.settings.groups.iter();
            print(&larder_source::postgres_triggers(groups.filter_map(|group| match &group.source {
                SourceUrl::Postgres(url) => Some(&**url),
                _ => None,
            })))
        }
        Err(error) => refuse(&error),
    }
}

/// `larder config convert FILE`
fn convert(matches: &ArgMatches) -> ExitCode {
    let path = matches.get_one::<PathBuf>("file").expect("clap demands it");
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    match text.and_then(|text| larder_config::convert_gcache(&text)) {
        Ok(converted) => print(&converted),
        Err(error) => refuse(&ConfigError(vec![format!("{}: {error}", path.display())])),
    }
}

/// Puts `serve` where no command is named: `larder --source …`.
fn with_serve(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let own = ["-h", "--help", "-V", "--version"];
    let names_no_command = args
        .get(1)
        .is_none_or(|first| first.to_string_lossy().starts_with('-') && own.iter().all(|flag| first != flag));
    if names_no_command {
        args.insert(args.len().min(1), "serve".into());
    }
    args
}

/// The configuration as typed; `data` is what is served instead of a source that is named.
fn configured(
    matches: &ArgMatches,
    data: Option<ServedData>,
    vars: impl Iterator<Item = (OsString, OsString)>,
) -> Result<CheckedConfig, ConfigError> {
    let (file, mut flags) = flag_layer(matches);
    if let Some(data) = &data {
        let texts = vec![data.source.to_string()];
        flags.insert("source", RawValue { texts, origin: SettingOrigin::Flag("source") });
    }
    let env = environment(vars)?;
    let mut config = larder_config::load_config(ConfigInput { flags, file, env, machine: Machine::detect() })?;
    config.settings.data_file = data.and_then(|data| data.file);
    Ok(config)
}

/// The environment as text; a variable that is not text matters only if it may be ours.
fn environment(vars: impl Iterator<Item = (OsString, OsString)>) -> Result<Env, ConfigError> {
    let mut env = Env::new();
    let mut problems = Vec::new();
    for (name, text) in vars {
        let Ok(name) = name.into_string() else {
            continue;
        };
        match text.into_string() {
            Ok(text) => {
                env.insert(name, text);
            }
            Err(_) if name.starts_with("LARDER_") => {
                problems.push(format!("env {name}: is not UTF-8"));
            }
            Err(_) => {}
        }
    }
    if problems.is_empty() { Ok(env) } else { Err(ConfigError(problems)) }
}

fn serve(config: CheckedConfig) -> ExitCode {
    let (logs, last_lines) = match Logs::start(config.settings.log_format, config.settings.log_level) {
        Ok(started) => started,
        Err(error) => return end_with(&error.into()),
    };
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let outcome = net::run(config, logs);
    drop(last_lines);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => end_with(&error),
    }
}

fn end_with(error: &RunError) -> ExitCode {
    // Not through the logs: it must be seen at every level.
    complain(error);
    ExitCode::from(error.exit_code())
}

fn refuse(error: &ConfigError) -> ExitCode {
    for problem in &error.0 {
        complain(problem);
    }
    ExitCode::from(USAGE)
}
