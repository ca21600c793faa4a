//! `larder-bench`: the programs that show Larder's figures, each against the systems it is compared with.
//!
//! Every program prints one JSON object per line on standard output and says in its `--help` what it measures and how.
mod bound;
mod compare;
mod contender;
mod dataset;
mod engine;
mod floor;
mod hit_ratio;
mod load;
mod machine;
mod memory;
mod page;
mod profile;
mod record;
mod replay;
mod report;
mod rivals;
mod run;
mod servers;
mod soak;
mod stamp;
mod store;
mod table;
mod trace;
mod verify;
mod wire;

use clap::Parser;
use std::process::ExitCode;

/// Measures Larder and what it is compared with; prints one JSON object per line.
#[derive(Debug, Parser)]
#[command(name = "larder-bench", version)]
enum Program {
    // By far the largest of them.
    Run(Box<run::RunArgs>),
    Record(record::RecordArgs),
    Replay(Box<replay::ReplayArgs>),
    Report(page::ReportArgs),
    HitRatio(hit_ratio::HitRatioArgs),
    Memory(memory::MemoryArgs),
    Engine(engine::EngineArgs),
    Bound(bound::BoundArgs),
    Server(compare::ServerArgs),
    Rivals(rivals::RivalsArgs),
    Floor(floor::FloorArgs),
    Profile(profile::ProfileArgs),
    Soak(soak::SoakArgs),
    Store(store::StoreArgs),
    Table(table::TableArgs),
    Verify(verify::VerifyArgs),
}

fn main() -> ExitCode {
    let out = &mut std::io::stdout();
    let result = match Program::parse() {
        Program::Run(args) => run::run(&args, out),
        Program::Record(args) => record::run(&args, out),
        Program::Replay(args) => replay::run(&args, out),
        Program::Report(args) => page::run(&args),
        Program::HitRatio(args) => hit_ratio::run(&args, out),
        Program::Memory(args) => memory::run(&args, out),
        Program::Engine(args) => engine::run(&args, out),
        Program::Bound(args) => bound::run(&args, out),
        Program::Profile(args) => profile::run(&args, out),
        Program::Floor(args) => floor::run(&args, out),
        Program::Server(args) => compare::run(&args, out),
        Program::Rivals(args) => rivals::run(&args),
        Program::Soak(args) => soak::run(&args, out),
        Program::Store(args) => store::run(&args, out),
        Program::Table(args) => table::run(&args, out),
        Program::Verify(args) => verify::run(&args, out),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("larder-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
