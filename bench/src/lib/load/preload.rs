//! Writing every key before a load.
use super::{
    keys::KeyDistribution,
    measure::ErrorKind,
    ops::{Mix, Verb},
    options::GeneratorOptions,
    plan::{LoadPlan, RunEnd},
    run_plan::run,
    target::{TargetProtocol, TargetUrl},
};
use anyhow::ensure;
use std::time::Duration;

/// Writes every key once, through the plan's target or through `url`.
pub(crate) fn preload(plan: &LoadPlan, url: &str) -> anyhow::Result<()> {
    let target = if url.is_empty() { plan.target.clone() } else { TargetUrl::parse(url)? };
    let pipeline = if target.protocol == TargetProtocol::Http { 1 } else { 64 };
    let mut plan = LoadPlan {
        target,
        mix: Mix::new(vec![(Verb::Set, 1.0)])?,
        rate: None,
        played: None,
        stop: RunEnd::Requests(plan.keys.count),
        warm_up: Duration::ZERO,
        client: GeneratorOptions {
            threads: 1,
            connections: 4,
            pipeline,
            spin: false,
            batches: false,
            think_time: None,
            delay: Duration::ZERO,
            ..plan.client.clone()
        },
        ..plan.clone()
    };
    plan.keys.distribution = KeyDistribution::Sequential;
    let counts = run(&plan, &mut |_| {})?.total.counts;
    let wrong: Vec<_> = ErrorKind::NAMES.iter().zip(counts.errors).filter(|(_, count)| *count > 0).collect();
    ensure!(!plan.interrupt.is_set(), "interrupted before all keys were written");
    ensure!(wrong.is_empty(), "not all keys could be written to {}: {wrong:?}", plan.target);
    Ok(())
}
