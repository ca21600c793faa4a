//! `larder-bench cluster`: several Larders as one cache on this machine, to see it work.
//!
//! `start` runs them until Ctrl-C and writes down where they are; `load` reads that, sends requests
//! and shows which node did what.
mod cluster_file;
mod load;
mod node_counts;
mod start;

use std::io::Write;

/// Several Larders as one cache with nginx in front, on this machine
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ClusterCommand {
    Start(start::StartArgs),
    Load(load::LoadArgs),
}

/// Runs the program.
pub(crate) fn run(args: &ClusterArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    match &args.command {
        ClusterCommand::Start(args) => start::run(args, out),
        ClusterCommand::Load(args) => load::run(args, out),
    }
}
