//! The subcommands of `larder-bench`, one file or folder each. No program imports another.
mod bound;
mod classic;
mod cluster;
mod data;
mod documents;
mod engine;
mod fleet;
mod floor;
mod hit_ratio;
mod hot_keys;
mod memory;
mod outages;
mod overload;
mod peers;
mod profile;
mod record;
mod replay;
mod replication;
mod report;
mod rivals;
mod run;
mod server;
mod snapshot;
mod soak;
mod store;
mod table;
mod tags;
mod tls;
mod verify;
mod what_if;

use std::io::Write;

/// Measures Larder and what it is compared with
#[derive(Debug, clap::Parser)]
#[command(name = "larder-bench", version)]
pub(crate) enum Program {
    // By far the largest of them.
    Run(Box<run::RunArgs>),
    Record(record::RecordArgs),
    Replay(Box<replay::ReplayArgs>),
    Replication(replication::ReplicationArgs),
    Report(report::ReportArgs),
    HitRatio(hit_ratio::HitRatioArgs),
    HotKeys(hot_keys::HotKeysArgs),
    Memory(memory::MemoryArgs),
    Outages(outages::OutagesArgs),
    Overload(overload::OverloadArgs),
    Peers(peers::PeersArgs),
    Engine(engine::EngineArgs),
    Fleet(fleet::FleetArgs),
    Bound(bound::BoundArgs),
    Classic(classic::ClassicArgs),
    Cluster(cluster::ClusterArgs),
    Data(data::DataArgs),
    Documents(documents::DocumentsArgs),
    Server(server::ServerArgs),
    Rivals(rivals::RivalsArgs),
    Floor(floor::FloorArgs),
    Profile(profile::ProfileArgs),
    Snapshot(snapshot::SnapshotArgs),
    Soak(soak::SoakArgs),
    Store(store::StoreArgs),
    Table(table::TableArgs),
    Tags(tags::TagsArgs),
    Tls(tls::TlsArgs),
    Verify(verify::VerifyArgs),
    WhatIf(what_if::WhatIfArgs),
}

impl Program {
    /// Runs the program; results go to `out`.
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Program::Run(args) => run::run(args, out),
            Program::Record(args) => record::run(args, out),
            Program::Replay(args) => replay::run(args, out),
            Program::Replication(args) => replication::run(args, out),
            Program::Report(args) => report::run(args),
            Program::HitRatio(args) => hit_ratio::run(args, out),
            Program::HotKeys(args) => hot_keys::run(args, out),
            Program::Outages(args) => outages::run(args, out),
            Program::Overload(args) => overload::run(args, out),
            Program::Peers(args) => peers::run(args, out),
            Program::Memory(args) => memory::run(args, out),
            Program::Engine(args) => engine::run(args, out),
            Program::Fleet(args) => fleet::run(args, out),
            Program::Bound(args) => bound::run(args, out),
            Program::Classic(args) => classic::run(args, out),
            Program::Cluster(args) => cluster::run(args, out),
            Program::Data(args) => data::run(args, out),
            Program::Documents(args) => documents::run(args, out),
            Program::Server(args) => server::run(args, out),
            Program::Rivals(args) => rivals::run(args),
            Program::Floor(args) => floor::run(args, out),
            Program::Profile(args) => profile::run(args, out),
            Program::Snapshot(args) => snapshot::run(args, out),
            Program::Soak(args) => soak::run(args, out),
            Program::Store(args) => store::run(args, out),
            Program::Table(args) => table::run(args, out),
            Program::Tags(args) => tags::run(args, out),
            Program::Tls(args) => tls::run(args, out),
            Program::Verify(args) => verify::run(args, out),
            Program::WhatIf(args) => what_if::run(args, out),
        }
    }
}
