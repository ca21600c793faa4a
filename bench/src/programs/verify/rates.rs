//! Throughput against the rate that was asked for.
use super::own_runs::{KEYS, deviation, figure, larder_bench, redis};
use crate::lib::figures::{self, Figure};
use std::io::Write;

/// From 1,000 to 200,000 requests a second.
pub(super) fn check((server_core, core): (usize, usize), seconds: u64, out: &mut dyn Write) -> anyhow::Result<()> {
    let (_server, url) = redis(server_core, core)?;
    for rate in ["1000", "20000", "100000", "200000"] {
        let duration = format!("{seconds}s");
        let options = ["--rate", rate, "--connections", "8", "--pipeline", "32", "--duration", &duration];
        let result = larder_bench(core, &url, &[KEYS, &options].concat())?;
        let ratio = figure(&result, &["throughput"])? / figure(&result, &["target_rate"])?;
        figures::line(out, &deviation(format!("rate {rate}/s deviation"), ratio, 0.005))?;
        for (name, path) in
            [("lag p99 ms", &["client", "lag_ms", "p99"][..]), ("latency p99 ms", &["latency_ms", "p99"])]
        {
            figures::line(out, &Figure::new("verify", format!("rate {rate}/s {name}"), figure(&result, path)?, None))?;
        }
    }
    Ok(())
}
