//! `larder serve DATA`: the table that it serves, which is built first if the data is not a table.
use super::output::complain;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use larder_config::{ConfigError, DataFile, SourceUrl};
use larder_source::table_build;
use larder_store::table::{Format, Input, Table, TableError};
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::{Path, PathBuf},
    process,
};

/// `larder serve DATA --watch`
pub(super) fn args() -> [Arg; 2] {
    let data = Arg::new("data")
        .value_name("DATA")
        .value_parser(value_parser!(PathBuf))
        .conflicts_with("source")
        .help("A table, or a data file to build one from (text, CSV, TSV or JSON lines; see larder table build); like --source table:FILE");
    let watch = Arg::new("watch")
        .long("watch")
        .action(ArgAction::SetTrue)
        .requires("data")
        .help("Build the table again whenever DATA has changed, not only at a reload");
    [data, watch]
}

pub(super) struct ServedData {
    pub(super) source: SourceUrl,
    /// What the table is built from, if the data is not a table.
    pub(super) file: Option<DataFile>,
}

/// The table that `larder serve DATA` serves: the data itself, or DATA.ltab, which is built unless
/// it was built from the data as it is.
pub(super) fn served(matches: &ArgMatches) -> Result<Option<ServedData>, ConfigError> {
    let Some(data) = matches.get_one::<PathBuf>("data") else { return Ok(None) };
    let input = Input::of(data.clone());
    if input.format == Format::Table {
        return Ok(Some(ServedData { source: SourceUrl::Table(data.clone()), file: None }));
    }
    let file = DataFile { path: data.clone(), watch: matches.get_flag("watch") };
    table_of(data).map(|table| Some(ServedData { source: SourceUrl::Table(table), file: Some(file) }))
}

/// The table of a data file, which is built unless it was built from the data as it is.
fn table_of(data: &Path) -> Result<PathBuf, ConfigError> {
    let refused = |error: TableError| ConfigError(vec![error.to_string()]);
    let wanted = Input::origin(data).map_err(refused)?;
    let is_current = |output: &Path| Table::open(output).is_ok_and(|table| table.origin() == Some(wanted));
    let beside = beside(data);
    if is_current(&beside) {
        return Ok(beside);
    }
    let output = match can_be_written(&beside) {
        true => beside,
        false => {
            let output = in_cache(data)
                .map_err(|error| ConfigError(vec![format!("{}: cannot be written: {error}", beside.display())]))?;
            if is_current(&output) {
                return Ok(output);
            }
            output
        }
    };
    complain(format_args!("building {}", output.display()));
    match table_build(data, &output, &[]).and_then(|mut build| build.status()) {
        Ok(status) if status.success() => Ok(output),
        // It has said why.
        Ok(_) => Err(ConfigError(vec![format!("{}: no table has been built from it", data.display())])),
        Err(error) => Err(ConfigError(vec![format!("{}: cannot start the build: {error}", output.display())])),
    }
}

/// `x.data.ltab` beside `x.data`.
fn beside(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(".ltab");
    name.into()
}

/// Whether a table can take this place: a build writes a file beside it and renames that.
fn can_be_written(output: &Path) -> bool {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let probe = folder.join(format!(".larder-{}.tmp", process::id()));
    let made = std::fs::OpenOptions::new().write(true).create_new(true).open(&probe).is_ok();
    made && std::fs::remove_file(&probe).is_ok() && !output.is_dir()
}

/// A table for data whose folder cannot be written to, in the user's cache:
/// `$XDG_CACHE_HOME/larder`, or `~/.cache/larder`. Not in `/tmp`, where another user could have put
/// one.
fn in_cache(data: &Path) -> io::Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let folder = cache.ok_or_else(|| io::Error::other("and neither XDG_CACHE_HOME nor HOME is set"))?.join("larder");
    std::fs::create_dir_all(&folder)?;
    // Files of the same name in different folders have different tables.
    let whole = data.canonicalize()?;
    let mut name = data.file_name().unwrap_or_default().to_owned();
    let mut hash = DefaultHasher::new();
    whole.hash(&mut hash);
    name.push(format!(".{:016x}.ltab", hash.finish()));
    Ok(folder.join(name))
}
