//! One load from its plan to its summary, with its progress on a terminal and in the HdrHistogram
//! log.
use super::{
    hdr_log::HdrLog,
    output_options::OutputOptions,
    progress_bar::LoadProgress,
    server_use::{self, ServerWatch},
    summary::{RunSummary, Series},
};
use crate::lib::load::{self, LoadPlan};

/// Runs a plan; `program` is the subcommand's name in the result.
pub(crate) fn measure(program: &str, plan: &LoadPlan, output: &OutputOptions) -> anyhow::Result<RunSummary> {
    let mut log = output.hdr_log.as_ref().map(|path| HdrLog::create(path, plan.slice)).transpose()?;
    let mut progress = LoadProgress::new(plan.slice, plan.measured(), output.is_quiet());
    let mut series = Series::default();
    let mut result = Ok(());
    let mut watch = None;
    let mut connected = || {
        watch = output.server_pid.map(ServerWatch::begin).transpose()?;
        Ok(())
    };
    let outcome = load::run_connected(plan, &mut connected, &mut |slice| {
        progress.show(slice);
        series.add(slice, plan.slice.as_secs_f64());
        if let (Some(log), Ok(())) = (&mut log, &result) {
            result = log.write(slice);
        }
    })?;
    drop(progress);
    result?;
    let mut summary = RunSummary::new(program, output.name.as_deref(), plan, &outcome, series);
    summary.server = watch.map(|watch| watch.end(summary.requests)).transpose()?;
    if !summary.interrupted {
        summary.server_version = server_use::version(&plan.target);
    }
    Ok(summary)
}
