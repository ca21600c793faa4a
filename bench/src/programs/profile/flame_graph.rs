//! Stacks as a flame graph: one SVG, drawn by the crate inferno.
use anyhow::Context;
use inferno::flamegraph::{
    self, Options,
    color::{MultiPalette, Palette},
};
use std::collections::BTreeMap;

/// Draws stacks, root first and separated by `;`. `unit` is what their numbers count.
pub(super) fn svg(title: &str, unit: &str, by_stack: &BTreeMap<String, u64>) -> anyhow::Result<Vec<u8>> {
    let count: u64 = by_stack.values().sum();
    let mut options = Options::default();
    options.title = format!("{title} ({count} {unit})");
    options.count_name = unit.to_owned();
    options.colors = Palette::Multi(MultiPalette::Rust);
    // A function has the same colour in every graph.
    options.deterministic = true;
    // inferno takes a picture without stacks for a mistake. A load that allocates nothing has none.
    let mut lines: Vec<String> = by_stack.iter().map(|(stack, count)| format!("{stack} {count}")).collect();
    if lines.is_empty() {
        lines.push(format!("no {unit} 1"));
    }
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .context("cannot draw the flame graph")?;
    Ok(svg)
}
