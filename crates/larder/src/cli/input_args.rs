//! The data file that `larder table build` and `larder store load` read: its arguments, and what is
//! said of its bad lines.
use super::{
    output::complain,
    progress_bar::{ProgressBar, Unit},
};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use larder_store::table::{BadLines, Format, Input, Progress};
use std::path::PathBuf;

/// The file. Standard input can be read as well.
pub(super) fn input() -> Arg {
    Arg::new("input")
        .value_name("INPUT")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("Input file; - reads standard input")
}

/// How it is read.
pub(super) fn options() -> [Arg; 5] {
    let column = |name: &'static str| Arg::new(name).long(name).value_name("COLUMN").default_value(name);
    let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    [
        Arg::new("format")
            .long("format")
            .value_name("FORMAT")
            .value_parser(Format::NAMES.map(|(name, _)| name))
            .help("Input format [default: by the file name's ending, otherwise text]"),
        column("key").help("CSV, TSV, JSON: column or field of the key"),
        column("value").help("CSV, TSV, JSON: column or field of the value"),
        switch("empty-values").help("Text: a line with only a key has an empty value, instead of being invalid"),
        switch("strict").help("Stop at the first invalid line instead of skipping it"),
    ]
}

pub(super) fn read(matches: &ArgMatches) -> Input {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let path = matches.get_one::<PathBuf>("input").expect("it is required").clone();
    let format = text("format").and_then(|wanted| Format::NAMES.into_iter().find(|(name, _)| *name == wanted));
    Input {
        format: format.map_or_else(|| Format::of(&path), |(_, format)| format),
        path,
        key: text("key").expect("it has a default"),
        value: text("value").expect("it has a default"),
        empty_values: matches.get_flag("empty-values"),
    }
}

/// Says which lines are left out.
pub(super) fn complain_of(input: &Input, bad: &BadLines) {
    let name = input.name();
    for (line, why) in &bad.described {
        complain(format_args!("{name}: line {line} is left out: {why}"));
    }
    match bad.count - bad.described.len() as u64 {
        0 => {}
        more => complain(format_args!("{name}: {more} more lines are left out")),
    }
}

/// Shows how far the reading of it is, and then the writing.
pub(super) fn show(bar: &mut ProgressBar, progress: Progress) {
    match progress {
        Progress::Reading(done, total) => bar.show(done, total.unwrap_or(done)),
        Progress::Writing(done, total) => {
            bar.begin("writing", Unit::Entries);
            bar.show(done, total);
        }
    }
}
