//! Charts as files of their own, with a legend and a background, so that they can be read on any page.
use super::chart::{self, Axis, ChartLine, colour, escape};
use std::fmt::Write;

/// Height of a line of the legend.
const ROW: usize = 24;
const WIDTH: usize = 960;
const HEIGHT: usize = 380;
const IN_A_ROW: usize = 5;

/// A chart as a file: its lines, one for each name.
pub(crate) fn file(title: &str, x: &Axis, y: &Axis, lines: Vec<(&str, Vec<(f64, f64)>)>) -> String {
    let height = HEIGHT + ROW * (1 + lines.len().div_ceil(IN_A_ROW));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" fill=\"var(--faint)\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"var(--paper)\"/>"
    );
    let _ = write!(out, "<text x=\"76\" y=\"18\" font-weight=\"600\">{}</text>", escape(title));
    for (number, (name, _)) in lines.iter().enumerate() {
        let (left, top) = (76 + number % IN_A_ROW * 172, ROW + number / IN_A_ROW * ROW);
        let _ = write!(
            out,
            "<rect x=\"{left}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            top + 6,
            colour(number),
            left + 18,
            top + 17,
            escape(name)
        );
    }
    let lines: Vec<ChartLine> = lines
        .into_iter()
        .enumerate()
        .map(|(number, (name, points))| ChartLine {
            points,
            colour: colour(number),
            dashed: false,
            title: name.to_owned(),
        })
        .collect();
    let drawn = chart::lines(title, x, y, &lines);
    // The chart's own frame gives way to this file's.
    let inside = drawn.split_once('>').map_or("", |(_, inside)| inside).trim_end_matches("</svg>");
    let _ = write!(out, "<g transform=\"translate(0 {})\">{inside}</g></svg>", height - HEIGHT);
    chart::without_css(&out)
}

#[test]
fn a_file_needs_no_css() {
    let axis = |label| Axis { low: 0.0, high: 1.0, log: false, ticks: vec![(0.5, "half".to_owned())], label };
    let svg = file("title", &axis("x"), &axis("y"), vec![("larder", vec![(0.0, 0.0), (1.0, 1.0)])]);
    assert!(!svg.contains("var(") && !svg.contains("class=") && !svg.contains("<style"), "{svg}");
    assert!(svg.contains("stroke=\"#0072b2\"") && svg.contains("<circle"), "{svg}");
}
