//! `larder-bench run`: loads a server by the options' plan, shows progress, prints and keeps the
//! result.
mod args;
mod knee;

pub(crate) use args::RunArgs;

use crate::lib::{
    load::{Interrupt, LoadPlan, preload},
    results::{measured_run::measure, output_options::finish},
};
use anyhow::ensure;
use std::io::Write;

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
        _ => {
            let run = measure("run", &plan, &args.output)?;
            finish(&args.output, &run, &[], None, out)?;
            ensure!(
                run.requests > 0 || run.interrupted,
                "no request was answered: does the server speak {} on this port?",
                plan.target.protocol.name()
            );
            Ok(())
        }
    }
}
