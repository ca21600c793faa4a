//! The flags of `larder serve`, made from the table.
use super::{
    raw_settings::{Layer, RawValue, SettingOrigin, split},
    removed_settings::removed_names,
    settings_table::{Fallback, SettingSpec, ValueKind, all_settings, find},
};
use clap::{Arg, ArgAction, ArgMatches, ValueHint, builder::PossibleValuesParser};
use std::path::PathBuf;

/// The flags that `-h` shows. `--help` has all.
const COMMON: [&str; 21] = [
    "http",
    "redis",
    "admin",
    "password",
    "users-file",
    "tls-cert",
    "tls-key",
    "source",
    "source-timeout",
    "max-memory",
    "max-keys",
    "ttl",
    "negative-ttl",
    "stale-if-error",
    "mode",
    "coherence",
    "peers",
    "snapshot-file",
    "threads",
    "log-level",
    "grace",
];

/// `--config` and a flag for every setting, under the table's headings.
pub fn flag_args() -> Vec<Arg> {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("Reads settings from a TOML file [env: LARDER_CONFIG]");
    // In the order of the documentation.
    let removed = removed_names().map(|name| {
        let arg = Arg::new(name).long(name).hide(true).action(ArgAction::Append);
        arg.num_args(0..=1).default_missing_value("true").allow_negative_numbers(true)
    });
    [config].into_iter().chain(all_settings().map(arg)).chain(removed).collect()
}

fn arg(setting: &'static SettingSpec) -> Arg {
    let default = match setting.default {
        Fallback::Is(text) | Fallback::Computed(text) => text,
        Fallback::Off => "none",
    };
    // A negative number is for the setting to refuse, by its name.
    let arg =
        Arg::new(setting.name).long(setting.name).value_name(setting.kind.placeholder()).allow_negative_numbers(true);
    // The last one counts, so that the arguments of a wrapper or an image can be overridden by adding
    // to them.
    let arg = match setting.many {
        true => arg.action(ArgAction::Append),
        false => arg.action(ArgAction::Set).overrides_with(setting.name),
    };
    let arg = match setting.kind.takes_bool() {
        true => arg.num_args(0..=1).default_missing_value("true"),
        false => arg,
    };
    let help = without_pages(setting.help);
    let ends = match setting.kind {
        ValueKind::Choice(names) => format!("[values: {}] [default: {default}]", names.join(", ")),
        _ => format!("[default: {default}]"),
    };
    arg.help(format!("{} {ends}", first_sentence(&help)))
        .long_help(format!("{help} {ends}"))
        .hide_short_help(!COMMON.contains(&setting.name))
        .help_heading(setting.section.title())
}

/// An argument for the completion scripts of shells, which offer what its value may be. Not for
/// parsing: a wrong value of a setting is an error that names the setting.
pub fn with_candidates(arg: Arg) -> Arg {
    if !arg.get_action().takes_values() {
        return arg;
    }
    match find(arg.get_id().as_str()).map(|setting| setting.kind) {
        Some(ValueKind::Choice(names)) => arg.value_parser(PossibleValuesParser::new(names)),
        Some(ValueKind::Switch) => arg.value_parser(PossibleValuesParser::new(["true", "false"])),
        Some(ValueKind::Path) => arg.value_hint(ValueHint::FilePath),
        _ => match arg.get_value_hint() {
            // bash writes a blank behind the name of a folder otherwise.
            ValueHint::AnyPath => arg.value_hint(ValueHint::FilePath),
            // No shell knows keys, URLs, sizes or durations. It would offer names of files.
            ValueHint::Unknown if arg.get_possible_values().is_empty() => arg.value_hint(ValueHint::Other),
            _ => arg,
        },
    }
}

/// A help text without the pages that it names (`See docs/tls.md.`, ` (docs/tls.md)`). They are part
/// of the source code, which the user of a program may not have.
pub(super) fn without_pages(help: &str) -> String {
    let mut out = help.to_owned();
    for (begins, ends) in [(" See docs/", ".md."), (" (docs/", ".md)")] {
        while let Some(from) = out.find(begins) {
            let to = out[from..].find(ends).expect("a page's name ends") + ends.len();
            out.replace_range(from..from + to, "");
        }
    }
    out
}

fn first_sentence(help: &str) -> &str {
    let ends = help.match_indices(". ").map(|(at, _)| at + 1);
    // Not the end of an abbreviation.
    let end = ends.into_iter().find(|end| help[*end + 1..].starts_with(|next: char| !next.is_lowercase()));
    &help[..end.unwrap_or(help.len())]
}

/// What was typed: the file's name and the layer of flags.
pub fn flag_layer(matches: &ArgMatches) -> (Option<PathBuf>, Layer) {
    let mut layer = Layer::new();
    for name in removed_names().filter(|name| matches.contains_id(name)) {
        layer.insert(name, RawValue { texts: Vec::new(), origin: SettingOrigin::Flag(name) });
    }
    for setting in all_settings() {
        if let Some(texts) = matches.get_many::<String>(setting.name) {
            let texts = texts.flat_map(|text| split(setting, text)).collect();
            layer.insert(setting.name, RawValue { texts, origin: SettingOrigin::Flag(setting.name) });
        }
    }
    (matches.get_one::<PathBuf>("config").cloned(), layer)
}
