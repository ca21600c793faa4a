//! A flame graph as one SVG: a box for each function, as wide as the share of all samples in which it was running or had called what was; callers below.
use crate::lib::results::chart::escape;
use std::{collections::BTreeMap, fmt::Write};

const WIDTH: f64 = 1200.0;
const ROW: f64 = 16.0;
const TOP: f64 = 28.0;
/// Narrower boxes are left out.
const LEAST: f64 = 1.0;
/// Width of a letter, roughly.
const LETTER: f64 = 6.6;

#[derive(Default)]
struct Node<'s> {
    count: u64,
    calls: BTreeMap<&'s str, Node<'s>>,
}

impl Node<'_> {
    /// Rows above this one that have boxes which are wide enough.
    fn height(&self, least: u64) -> usize {
        let wide = self.calls.values().filter(|call| call.count >= least);
        wide.map(|call| 1 + call.height(least)).max().unwrap_or(0)
    }
}

/// Of stacks, root first and separated by `;`; `unit` is what their numbers count.
pub(super) fn svg(title: &str, unit: &str, by_stack: &BTreeMap<String, u64>) -> String {
    let mut root = Node::default();
    for (stack, count) in by_stack {
        root.count += count;
        let mut node = &mut root;
        for name in stack.split(';') {
            node = node.calls.entry(name).or_default();
            node.count += count;
        }
    }
    let scale = WIDTH / root.count.max(1) as f64;
    let rows = root.height((LEAST / scale).ceil() as u64);
    let height = TOP + rows as f64 * ROW + 8.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\
         <text x=\"6\" y=\"18\" font-size=\"14\">{} ({} {unit})</text>\n",
        escape(title),
        root.count
    );
    boxes(&mut out, &root, 0.0, height - 8.0, (scale, root.count, unit));
    out.push_str("</svg>\n");
    out
}

fn boxes(out: &mut String, node: &Node<'_>, mut left: f64, bottom: f64, of: (f64, u64, &str)) {
    let (scale, all, unit) = of;
    for (name, call) in &node.calls {
        let width = call.count as f64 * scale;
        if width >= LEAST {
            let top = bottom - ROW;
            let share = 100.0 * call.count as f64 / all as f64;
            let name = escape(name);
            let fill = colour(&name);
            // Writing to a string cannot fail.
            let _ = write!(
                out,
                "<g><title>{name}: {} {unit}, {share:.1} %</title><rect x=\"{left:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{}\" fill=\"{fill}\"/>",
                call.count,
                width - 0.3,
                ROW - 1.0
            );
            let letters = ((width - 4.0) / LETTER) as usize;
            if letters >= 3 {
                let _ = write!(
                    out,
                    "<text x=\"{:.1}\" y=\"{}\">{}</text>",
                    left + 2.0,
                    top + 11.5,
                    shortened(&name, letters)
                );
            }
            out.push_str("</g>\n");
            boxes(out, call, left, top, of);
        }
        left += width;
    }
}

/// The end of a name tells more than its beginning. Nothing is cut within an entity.
fn shortened(name: &str, letters: usize) -> &str {
    let name = name.split(" [").next().unwrap_or(name);
    let last =
        name.rmatch_indices("::").map(|(at, _)| &name[at + 2..]).find(|part| part.len() > 1 && !part.starts_with('{'));
    [name, last.unwrap_or(name)].into_iter().find(|part| part.chars().count() <= letters).unwrap_or("")
}

/// Kernel, Larder, runtime and the rest apart; the same name always in the same shade.
fn colour(name: &str) -> String {
    let hue = match name {
        _ if name.ends_with("_[k]") => 210,
        _ if name.contains("engine/src/") => 95,
        _ if name.contains("server/src/") => 30,
        _ if name.contains("tokio") || name.contains("mio-") || name.contains("hyper") => 280,
        _ => 0,
    };
    let shade = name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 16;
    format!("hsl({hue},{}%,{}%)", if hue == 0 { 0 } else { 65 }, 68 + shade)
}
