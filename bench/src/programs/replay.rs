//! `larder-bench replay`: plays recorded operations on schedule, against one server or two.
use crate::lib::{
    load::{
        GeneratorOptions, Interrupt, LoadPlan, Played, RunEnd,
        keys::{KeyDistribution, KeySpace, Names},
        preload, slice,
        target::TargetUrl,
        values::Sizes,
    },
    results::{
        measured_run::measure,
        output_options::{OutputOptions, finish, keep},
        summary::RunSummary,
        text_table,
    },
    trace::{OperationKind, TraceFile, TraceFormat},
};
use anyhow::ensure;
use std::{io::Write, path::PathBuf, time::Duration};

/// Plays recorded operations on schedule against a server, or against two, one after the other
///
/// Reads a trace that `larder-bench record` wrote. Each operation has its time in the trace
/// (divided by --speed) as its intended start; what is measured, and how, is as with `run`. Keys
/// are made of their numbers by --key, values are as long as they were recorded.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// The trace (.ops; may end in .zst or .xz)
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The server: redis://…, http://… or memcache://…
    #[arg(long, value_name = "URL")]
    url: String,
    /// A second server: the same is played there afterwards, and the results stand side by side
    #[arg(long, value_name = "URL")]
    against: Option<String>,
    /// How many times as fast as recorded
    #[arg(long, value_name = "N", default_value_t = 1.0, allow_negative_numbers = true)]
    speed: f64,
    /// How a key reads: text with n in braces as in the default, {n:012} or {uuid}
    #[arg(long, value_name = "PATTERN", default_value = "key:{n}")]
    key: String,
    /// Write every key of the trace once before, with values of this length
    #[arg(long, value_name = "SIZES")]
    preload: Option<Sizes>,
    #[command(flatten)]
    client: GeneratorOptions,
    #[command(flatten)]
    output: OutputOptions,
}

/// Runs the program.
pub(crate) fn run(args: &ReplayArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(args.speed > 0.0 && args.speed.is_finite(), "--speed {} is not above 0", args.speed);
    args.output.check()?;
    let trace = TraceFile::new(&args.trace, Some(TraceFormat::Ops))?;
    let interrupt = Interrupt::watch()?;
    let Some(against) = &args.against else {
        let result = play(args, &args.url, &trace, args.output.name.clone(), &interrupt)?;
        return finish(&args.output, &result, &[], None, out);
    };
    // Two runs of one name are told apart by their servers.
    let name = |url: &str| args.output.name.as_ref().map(|name| format!("{name}: {url}"));
    let first = play(args, &args.url, &trace, name(&args.url), &interrupt)?;
    if first.interrupted {
        return finish(&args.output, &first, &[], None, out);
    }
    let second = play(args, against, &trace, name(against), &interrupt)?;
    if !args.output.json {
        text_table::write(out, &first)?;
        writeln!(out)?;
        text_table::write(out, &second)?;
        return keep(&args.output, &serde_json::to_value(&first)?, &[first, second]);
    }
    let object = serde_json::to_value(&second)?;
    finish(&args.output, &first, &[second], Some(("against", object)), out)
}

fn play(
    args: &ReplayArgs,
    url: &str,
    trace: &TraceFile,
    name: Option<String>,
    interrupt: &Interrupt,
) -> anyhow::Result<RunSummary> {
    let (mut count, mut keys, mut last, mut largest) = (0u64, 0, 0, 0);
    for operation in trace.operations()? {
        let operation = operation?;
        (count, last, keys) = (count + 1, operation.at, keys.max(operation.key + 1));
        if let OperationKind::Set(size) = operation.kind {
            largest = largest.max(size as usize);
        }
    }
    ensure!(count > 0, "{} holds no operation", args.trace.display());
    let length = Duration::from_micros((last as f64 / args.speed) as u64);
    let rate = count as f64 / length.as_secs_f64().max(1e-6);
    let mut plan = LoadPlan {
        target: TargetUrl::parse(url)?,
        mix: Played::mix(),
        keys: KeySpace { count: keys, names: Names::pattern(&args.key)?, distribution: KeyDistribution::Sequential },
        sizes: Sizes::Fixed(largest),
        rate: None,
        stop: RunEnd::After(length),
        warm_up: Duration::ZERO,
        played: None,
        slice: args.output.interval.unwrap_or_else(|| slice(length)),
        interrupt: interrupt.clone(),
        client: args.client.clone(),
    };
    if let Some(sizes) = &args.preload {
        preload(&LoadPlan { sizes: sizes.clone(), ..plan.clone() }, "")?;
    }
    plan.played = Some(Played { trace: trace.clone(), speed: args.speed, rate });
    measure("replay", &plan, &OutputOptions { name, ..args.output.clone() })
}
