//! `larder-bench data`: files of keys, for `run --key @FILE` and `larder table build`.
use crate::lib::{figures, key_file::KeyFile, results::progress_bar::ProgressBar};
use anyhow::Context;
use serde::Serialize;
use std::{fs::File, io::Write, path::PathBuf};

/// Makes a file of keys, or of keys and values
///
/// Writes --keys lines to --out, one by one: memory use does not grow with their number. Without
/// --out, the lines go to standard output. Format `keys` is read by `larder-bench run --key @FILE`;
/// `text` (key, blank, value) and `tsv` (with a header) by `larder serve FILE` and `larder table
/// build`. The same options write the same bytes on every machine. With seed 0, line n is the key
/// that `run --key '{uuid}'` uses as number n, from 0.
#[derive(Debug, clap::Args)]
pub(crate) struct DataArgs {
    #[command(flatten)]
    lines: KeyFile,
    /// The file (default: standard output)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

/// What was written.
#[derive(Debug, Serialize)]
struct Written {
    program: &'static str,
    file: String,
    keys: u64,
    bytes: u64,
}

/// Runs the program.
pub(crate) fn run(args: &DataArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(path) = &args.out else {
        // No progress among the lines.
        return args.lines.write(out, &mut |_| {}).map(drop);
    };
    let mut file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let progress = ProgressBar::steps("keys", args.lines.keys, args.quiet);
    let bytes = args.lines.write(&mut file, &mut |keys| progress.show(keys));
    drop(progress);
    let bytes = bytes.with_context(|| format!("cannot write {}", path.display()))?;
    figures::line(out, &Written { program: "data", file: path.display().to_string(), keys: args.lines.keys, bytes })
}
