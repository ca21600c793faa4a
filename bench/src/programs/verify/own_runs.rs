//! `larder-bench run` as the verification runs it, and what it reads from the result.
use crate::lib::{
    external_generators,
    figures::{Figure, FigureTarget},
    servers::{self, ServerProcess},
};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::process::Command;

pub(super) const KEYS: &[&str] = &["--keys", "100000", "--key", "key:{n:012}"];

/// redis-server with the keys that redis-benchmark asks for.
pub(super) fn redis(core: usize, client: usize) -> anyhow::Result<(ServerProcess, String)> {
    let server = servers::redis(Some(core))?;
    let url = format!("redis://{}", server.address);
    larder_bench(client, &url, &[KEYS, &["--preload", "--requests", "1"]].concat())?;
    Ok((server, url))
}

/// `larder-bench run` in a process of its own, as the others are.
pub(super) fn larder_bench(core: usize, url: &str, options: &[&str]) -> anyhow::Result<Value> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.args(["run", "--json", "--url", url]).args(options);
    let text = external_generators::output(core, &mut command)?;
    let result: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    let errors = result["errors"].as_object().context("a result without errors")?;
    ensure!(errors.values().all(|count| *count == 0), "errors in a verification: {result}");
    Ok(result)
}

pub(super) fn figure(result: &Value, path: &[&str]) -> anyhow::Result<f64> {
    let value = path.iter().fold(result, |value, name| &value[*name]);
    value.as_f64().with_context(|| format!("the result has no {path:?}"))
}

/// A deviation from 1, in either direction, and its bound.
pub(super) fn deviation(name: String, ratio: f64, most: f64) -> Figure {
    Figure::new("verify", name, (ratio - 1.0).abs(), Some(FigureTarget::AtMost(most)))
}
