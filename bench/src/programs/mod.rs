//! The subcommands of `larder-bench`, one file or folder each. No program imports another.
mod cassandra;
mod cluster;
mod data;
mod demo;
mod fleet;
mod hit_ratio;
mod memory;
mod outages;
mod postgres;
mod record;
mod replay;
mod report;
mod rivals;
mod run;
mod scenarios;
mod soak;
mod verify;

use std::io::Write;

/// Measures Larder and what it is compared with
#[derive(Debug, clap::Parser)]
#[command(name = "larder-bench", version)]
pub(crate) enum Program {
    // By far the largest of them.
    Run(Box<run::RunArgs>),
    Record(record::RecordArgs),
    Replay(Box<replay::ReplayArgs>),
    Report(report::ReportArgs),
    HitRatio(hit_ratio::HitRatioArgs),
    Memory(memory::MemoryArgs),
    Outages(outages::OutagesArgs),
    Postgres(postgres::PostgresArgs),
    Cassandra(cassandra::CassandraArgs),
    Fleet(fleet::FleetArgs),
    Classic(scenarios::ClassicArgs),
    Cluster(cluster::ClusterArgs),
    Data(data::DataArgs),
    Demo(demo::DemoArgs),
    Server(scenarios::ServerArgs),
    Rivals(rivals::RivalsArgs),
    Soak(soak::SoakArgs),
    Verify(verify::VerifyArgs),
}

impl Program {
    /// Runs the program; results go to `out`.
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Program::Run(args) => run::run(args, out),
            Program::Record(args) => record::run(args, out),
            Program::Replay(args) => replay::run(args, out),
            Program::Report(args) => report::run(args),
            Program::HitRatio(args) => hit_ratio::run(args, out),
            Program::Outages(args) => outages::run(args, out),
            Program::Postgres(args) => postgres::run(args, out),
            Program::Cassandra(args) => cassandra::run(args, out),
            Program::Memory(args) => memory::run(args, out),
            Program::Fleet(args) => fleet::run(args, out),
            Program::Classic(args) => scenarios::run_classic(args, out),
            Program::Cluster(args) => cluster::run(args, out),
            Program::Data(args) => data::run(args, out),
            Program::Demo(args) => demo::run(args, out),
            Program::Server(args) => scenarios::run_server(args, out),
            Program::Rivals(args) => rivals::run(args),
            Program::Soak(args) => soak::run(args, out),
            Program::Verify(args) => verify::run(args, out),
        }
    }
}
