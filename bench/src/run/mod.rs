//! `larder-bench run`: loads a server by the options' plan, shows progress, prints and keeps the result.
mod args;
mod hdr_log;
mod knee;
mod live;
pub(crate) mod summary;
pub(crate) mod table;

pub(crate) use args::{OutputOptions, RunArgs, slice};

use crate::{
    load::{
        self, GeneratorOptions, Interrupt, LoadPlan, RunEnd,
        keys::KeyDistribution,
        measure::ErrorKind,
        ops::{Mix, Verb},
        target::{TargetProtocol, TargetUrl},
    },
    page, report,
};
use anyhow::{Context, ensure};
use hdr_log::HdrLog;
use live::Live;
use serde_json::Value;
use std::{io::Write, time::Duration};
use summary::{RunSummary, Series};

/// Runs the program.
pub(crate) fn run(args: &RunArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let plan = LoadPlan { interrupt: Interrupt::watch()?, ..args.plan()? };
    args.output.check()?;
    if let Some(url) = &args.preload {
        preload(&plan, url)?;
    }
    match (args.ramp, args.slo) {
        (Some(ramp), Some(slo)) => {
            let (best, knee) = knee::find(&plan, ramp, slo, &args.output)?;
            finish(&args.output, &best, &[], Some(knee), out)
        }
        _ => finish(&args.output, &measure("run", &plan, &args.output)?, &[], None, out),
    }
}

/// One run, with its progress on a terminal and in the HdrHistogram log.
pub(crate) fn measure(program: &str, plan: &LoadPlan, output: &OutputOptions) -> anyhow::Result<RunSummary> {
    let mut log = output.hdr_log.as_ref().map(|path| HdrLog::create(path, plan.slice)).transpose()?;
    let mut live = Live::new(plan.slice, plan.measured());
    let mut series = Series::default();
    let mut result = Ok(());
    let outcome = load::run(plan, &mut |slice| {
        live.show(slice);
        series.add(slice, plan.slice.as_secs_f64());
        if let (Some(log), Ok(())) = (&mut log, &result) {
            result = log.write(slice);
        }
    })?;
    drop(live);
    result?;
    Ok(RunSummary::new(program, output.name.as_deref(), plan, &outcome, series))
}

/// Prints and keeps a result, with what else belongs to it. `others` are shown beside it on the page.
pub(crate) fn finish(
    output: &OutputOptions,
    summary: &RunSummary,
    others: &[RunSummary],
    more: Option<(&'static str, Value)>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut object = serde_json::to_value(summary).context("a result cannot be written as JSON")?;
    if let (Some(fields), Some((name, value))) = (object.as_object_mut(), more) {
        if !output.json {
            writeln!(out, "{name}: {value:#}\n")?;
        }
        fields.insert(name.to_owned(), value);
    }
    match output.json {
        true => report::line(out, &object)?,
        false => table::write(out, summary)?,
    }
    keep(output, &object, &[std::slice::from_ref(summary), others].concat())
}

/// Writes the files that the options ask for.
pub(crate) fn keep(output: &OutputOptions, object: &Value, runs: &[RunSummary]) -> anyhow::Result<()> {
    if let Some(path) = &output.save {
        std::fs::write(path, format!("{object}\n")).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &output.report {
        let compared = output.compare.iter().map(|file| page::read(file)).collect::<anyhow::Result<Vec<_>>>()?;
        page::write(path, &[runs, &compared].concat())?;
    }
    Ok(())
}

/// Writes every key once, through the plan's target or through `url`.
pub(crate) fn preload(plan: &LoadPlan, url: &str) -> anyhow::Result<()> {
    let target = if url.is_empty() { plan.target.clone() } else { TargetUrl::parse(url)? };
    let pipeline = if target.protocol == TargetProtocol::Http { 1 } else { 64 };
    let mut plan = LoadPlan {
        target,
        mix: Mix::new(vec![(Verb::Set, 1.0)])?,
        rate: None,
        played: None,
        stop: RunEnd::Requests(plan.keys.count),
        warm_up: Duration::ZERO,
        client: GeneratorOptions { threads: 1, connections: 4, pipeline, spin: false, ..plan.client.clone() },
        ..plan.clone()
    };
    plan.keys.distribution = KeyDistribution::Sequential;
    let counts = load::run(&plan, &mut |_| {})?.total.counts;
    let wrong: Vec<_> = ErrorKind::NAMES.iter().zip(counts.errors).filter(|(_, count)| *count > 0).collect();
    ensure!(!plan.interrupt.is_set(), "interrupted before all keys were written");
    ensure!(wrong.is_empty(), "not all keys could be written to {}: {wrong:?}", plan.target);
    Ok(())
}
