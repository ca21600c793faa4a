//! `larder-bench classic`: one command for each form in which caches and stores usually publish
//! their figures.
//!
//! Each form starts its servers on one core, loads them from another, and repeats all its loads
//! `--runs` times, in turn. A load's name is its row in the result.
mod args;
mod bench;
mod measured_rows;
mod peers;
mod proxy;
mod rest;
mod store;
mod table;

pub(crate) use args::ClassicArgs;

use crate::lib::{
    load::Interrupt,
    machine,
    results::{latency_shape, page, progress_bar::ProgressBar},
};
use anyhow::Context;
use args::ClassicForm;
use bench::Bench;
use std::{fs::File, io::Write};

/// Runs the program.
pub(crate) fn run(args: &ClassicArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (server_core, client_core) = machine::server_and_client_core()?;
    let loads = match args.form {
        ClassicForm::Proxy => proxy::LOADS,
        ClassicForm::Rest => rest::LOADS,
        ClassicForm::Table => table::LOADS,
        ClassicForm::Peers => peers::LOADS,
        ClassicForm::Store => store::LOADS,
    };
    let saved =
        args.save.as_ref().map(|path| File::create(path).with_context(|| format!("cannot write {}", path.display())));
    let mut bench = Bench {
        args,
        server_core,
        client_core,
        interrupt: Interrupt::watch()?,
        progress: ProgressBar::steps("", loads * args.runs, args.quiet || args.json),
        saved: saved.transpose()?,
        runs: Vec::new(),
        out,
    };
    match args.form {
        ClassicForm::Proxy => proxy::run(&mut bench)?,
        ClassicForm::Rest => rest::run(&mut bench)?,
        ClassicForm::Table => table::run(&mut bench)?,
        ClassicForm::Peers => peers::run(&mut bench)?,
        ClassicForm::Store => store::run(&mut bench)?,
    }
    let Bench { runs, out, progress, .. } = bench;
    drop(progress);
    if !args.json {
        measured_rows::write(out, &runs)?;
        // hey prints its summary; that of the last run stands for all.
        if let Some(run) = runs.iter().rev().find(|run| run.name == table::HEY) {
            latency_shape::write_summary(out, run)?;
        }
    }
    args.report.as_ref().map_or(Ok(()), |path| page::write(path, &runs))
}
