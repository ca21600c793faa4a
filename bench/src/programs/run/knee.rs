//! The knee: the highest load at which the 99th percentile of the latency still meets a bound.
use super::args::Ramp;
use crate::lib::{
    load::LoadPlan,
    results::{measured_run::measure, output_options::OutputOptions, summary::RunSummary},
};
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::time::Duration;

/// How near the highest rate that meets the bound and the lowest that does not come before the
/// search ends.
const PRECISION: f64 = 1.03;
/// By how much the rate rises from step to step until one fails.
const RISE: f64 = 1.5;

/// The best run, and all steps.
pub(super) fn find(
    plan: &LoadPlan,
    ramp: Ramp,
    slo: Duration,
    output: &OutputOptions,
) -> anyhow::Result<(RunSummary, (&'static str, Value))> {
    let mut search = Search { slo_ms: slo.as_secs_f64() * 1e3, runs: Vec::new() };
    match ramp {
        Ramp::Rate(from, to) => search.rates(from, to, |rate| {
            let plan = LoadPlan { rate: Some(rate), ..plan.clone() };
            step(&plan, output)
        })?,
        Ramp::Connections(from, to) => {
            let mut connections = from;
            while connections <= to {
                let mut plan = LoadPlan { rate: None, ..plan.clone() };
                plan.client.connections = connections;
                plan.client.threads = plan.client.threads.min(connections);
                search.judge(step(&plan, output)?);
                connections *= 2;
            }
        }
    }
    search.result(slo)
}

fn step(plan: &LoadPlan, output: &OutputOptions) -> anyhow::Result<RunSummary> {
    let summary = measure("run", plan, output)?;
    ensure!(!summary.interrupted, "interrupted before the knee was found");
    Ok(summary)
}

struct Search {
    slo_ms: f64,
    runs: Vec<(RunSummary, bool)>,
}

impl Search {
    /// Keeps a run; does it meet the bound? Falling behind the schedule or any error is a failure
    /// whatever the percentile says.
    fn judge(&mut self, run: RunSummary) -> bool {
        let keeps_up = run.target_rate.is_none_or(|rate| run.throughput >= 0.99 * rate);
        let rate = run.target_rate.unwrap_or(run.throughput);
        let met = run.latency_ms.p99 <= self.slo_ms && run.all_errors() == 0 && run.requests > 0 && keeps_up;
        eprintln!(
            "{:>10.*}/s  {:>5} connections  p99 {:>9.3} ms  {}{}",
            if rate < 100.0 { 2 } else { 0 },
            rate,
            run.connections,
            run.latency_ms.p99,
            if met { "met" } else { "not met" },
            if run.client_saturated { ", but the generator was the bottleneck" } else { "" }
        );
        self.runs.push((run, met));
        met
    }

    /// Raises the rate until a run fails, then halves what lies between.
    fn rates(
        &mut self,
        from: f64,
        to: f64,
        mut run: impl FnMut(f64) -> anyhow::Result<RunSummary>,
    ) -> anyhow::Result<()> {
        let (mut low, mut rate) = (None, from);
        let mut high = loop {
            if !self.judge(run(rate)?) {
                break rate;
            }
            low = Some(rate);
            if rate >= to {
                return Ok(());
            }
            rate = (rate * RISE).min(to);
        };
        while let Some(met) = low.filter(|low| high / low > PRECISION) {
            let middle = (met * high).sqrt();
            match self.judge(run(middle)?) {
                true => low = Some(middle),
                false => high = middle,
            }
        }
        Ok(())
    }

    fn result(self, slo: Duration) -> anyhow::Result<(RunSummary, (&'static str, Value))> {
        let step = |(run, met): &(RunSummary, bool)| {
            json!({
                "target_rate": run.target_rate, "connections": run.connections, "throughput": run.throughput,
                "p99_ms": run.latency_ms.p99, "errors": run.all_errors(), "met": met, "client_saturated": run.client_saturated,
            })
        };
        let steps: Vec<Value> = self.runs.iter().map(step).collect();
        let passed = self.runs.iter().filter(|(_, met)| *met);
        let best = passed.max_by(|a, b| a.0.throughput.total_cmp(&b.0.throughput));
        let knee = best.map(step);
        let first = best.or(self.runs.first()).map(|(run, _)| run.clone());
        let slo = larder_units::show_short_duration(slo);
        Ok((first.context("the ramp has no step")?, ("ramp", json!({ "slo": slo, "knee": knee, "steps": steps }))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(rate: f64, p99: f64) -> RunSummary {
        let mut summary: RunSummary = crate::lib::results::page::tests::example();
        (summary.target_rate, summary.throughput, summary.latency_ms.p99) = (Some(rate), rate, p99);
        summary
    }

    fn knee(from: f64, to: f64, capacity: f64) -> Value {
        let mut search = Search { slo_ms: 1.0, runs: Vec::new() };
        search
            .rates(from, to, |rate| Ok(summary(rate, if rate <= capacity { 0.5 } else { 50.0 })))
            .expect("no run fails");
        search.result(Duration::from_millis(1)).expect("a step").1.1
    }

    #[test]
    fn the_knee_is_found_within_the_precision() {
        for capacity in [1_000.0, 12_345.0, 199_999.0] {
            let found = knee(1_000.0, 1e6, capacity)["knee"]["target_rate"].as_f64().expect("a rate");
            assert!(found <= capacity && found * PRECISION >= capacity, "{found} of {capacity}");
        }
        assert_eq!(knee(1_000.0, 5_000.0, 1e9)["knee"]["target_rate"], 5_000.0);
        assert!(knee(1_000.0, 5_000.0, 10.0)["knee"].is_null());
    }

    #[test]
    fn falling_behind_or_an_error_is_a_failure() {
        let mut search = Search { slo_ms: 1.0, runs: Vec::new() };
        assert!(search.judge(summary(100.0, 1.0)));
        assert!(!search.judge(RunSummary { throughput: 98.0, ..summary(100.0, 0.1) }));
        let errors = [("closed".to_owned(), 1)].into();
        assert!(!search.judge(RunSummary { errors, ..summary(100.0, 0.1) }));
    }
}
