//! A store on disk behind HTTP, over one connection at fixed rates, as wrk2 -c1 -t1 -R does.
use super::{bench::Bench, proxy::at};
use crate::lib::{
    load::{self, PlanOptions},
    servers,
};

const RATES: [f64; 3] = [10_000.0, 12_000.0, 20_000.0];
pub(super) const LOADS: u64 = 2 * RATES.len() as u64;
/// Bytes of a value.
const VALUE: &str = "100";

pub(super) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let folder = bench.folder()?;
    let source = format!("disk:{}", folder.path().join("store").display());
    let options = ["--source", &source, "--max-memory", "64MiB"];
    let server = servers::larder(bench.larder(), Some(bench.server_core), &options)?;
    let entities = PlanOptions {
        keys: Some(bench.args.keys),
        key: "{n}".to_owned(),
        value_size: VALUE.parse()?,
        ..bench.closed(&at(&server, "/v0/entity?id={key}")?, "get")
    };
    // Over the Redis protocol, which takes many writes at once.
    let all = bench.plan(&entities, &bench.generator(1))?;
    load::preload(&all, &format!("redis://{}", server.address))?;
    for _ in 0..bench.args.runs {
        for (name, op, expected) in [("PUT", "set", "201"), ("GET", "get", "200")] {
            for rate in RATES {
                let options = PlanOptions { op: vec![op.to_owned()], rate: Some(rate), ..entities.clone() };
                let plan = bench.plan(&options, &bench.generator(1))?;
                bench.measure(&format!("{name}, {rate} a second"), &plan, &server, &[expected], None)?;
            }
        }
    }
    Ok(())
}
