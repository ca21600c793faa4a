//! Three peers as one cache: new nodes, and nodes that have all values.
use super::bench::Bench;
use crate::lib::peer_nodes::{PeerKind, PeerNodes};

pub(super) const LOADS: u64 = 4;

pub(super) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for _ in 0..bench.args.runs {
        let nodes = PeerNodes::start(PeerKind::LarderHttp, bench.larder(), true, bench.server_core)?;
        for (name, rate) in [
            ("cold, 250 a second", Some(250.0)),
            ("warm, 250 a second", Some(250.0)),
            ("warm, 500 a second", Some(500.0)),
            ("warm, as fast as it goes", None),
        ] {
            let plan = nodes.plan(rate, bench.args.duration, bench.client_core, &bench.interrupt)?;
            bench.measure(name, &plan, nodes.asked()?, &["200"], None)?;
        }
    }
    Ok(())
}
