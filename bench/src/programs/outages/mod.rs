//! `larder-bench outages`: what clients notice when the source suffers.
mod clients;
mod scenarios;
mod timeline;

use crate::lib::{figures, results::origin};
use anyhow::{Context, ensure};
use scenarios::{SCENARIOS, Scenario};
use std::{io::Write, path::PathBuf, time::Duration};
use timeline::Timeline;

/// Hits, answers and source load while the source is slow, fails, is gone, or everything is
/// invalidated
///
/// Each scenario has a calm phase, an incident and a recovery. In front of the same HTTP origin (32
/// workers, 10 ms each) Larder and nginx `proxy_cache` (with proxy_cache_lock and
/// proxy_cache_use_stale) run in turn; in front of a redis-server that is stopped (SIGSTOP), Larder
/// and the redis-server alone. Clients read keys that stay cached (hits), keys with a life of 2 s,
/// and keys that were never read.
///
/// Prints a line for each scenario and server; with --out also charts over time. Ends with an error
/// if a p99 of Larder's hits in an incident is above 1.5 times that of the calm phase and above
/// --noise.
#[derive(Debug, clap::Args)]
pub(crate) struct OutagesArgs {
    /// The larder binary
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// Only these scenarios: slow, errors, gone, invalidation, redis
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<String>,
    /// Incidents of 12 seconds instead of one to five minutes
    #[arg(long)]
    quick: bool,
    /// Folder for the charts
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A p99 below this is no failure, whatever the ratio: what the scheduler of a busy machine
    /// adds
    #[arg(long, value_name = "DURATION", default_value = "3ms", value_parser = larder_units::parse_duration)]
    noise: Duration,
}

/// Longest p99 of hits in an incident, as a multiple of the calm phase.
const BOUND: f64 = 1.5;

/// Runs the program.
pub(crate) fn run(args: &OutagesArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let unknown = args.scenario.iter().find(|name| SCENARIOS.iter().all(|scenario| scenario.name != **name));
    let names = || SCENARIOS.map(|scenario| scenario.name).join(", ");
    ensure!(unknown.is_none(), "--scenario {} is none of {}", unknown.map_or("", |name| name), names());
    let mut failed = Vec::new();
    for scenario in SCENARIOS.iter().filter(|s| args.scenario.is_empty() || args.scenario.iter().any(|n| n == s.name)) {
        let mut timelines = Vec::new();
        for server in scenario.servers {
            let timeline = scenario.run(server, &args.larder, args.quick)?;
            let row = timeline.row(scenario.name, server);
            let above = row.hits_p99_ms.incident > (BOUND * row.hits_p99_ms.calm).max(args.noise.as_secs_f64() * 1e3);
            if *server == "Larder" && above {
                failed.push(scenario.name);
            }
            figures::line(out, &row)?;
            timelines.push((*server, timeline));
        }
        draw(args, scenario, &timelines)?;
    }
    ensure!(failed.is_empty(), "hits were slower during the incident: {}", failed.join(", "));
    Ok(())
}

fn draw(args: &OutagesArgs, scenario: &Scenario, timelines: &[(&str, Timeline)]) -> anyhow::Result<()> {
    let Some(folder) = &args.out else { return Ok(()) };
    std::fs::create_dir_all(folder)?;
    for (name, chart) in timeline::charts(scenario.title, timelines, &origin::of_this_run()?) {
        let path = folder.join(format!("{}-{name}.svg", scenario.name));
        std::fs::write(&path, chart).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
