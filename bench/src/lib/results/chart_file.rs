//! Charts as files of their own, with a legend and a background, so that they can be read on any
//! page.
use super::chart::{self, Axis, ChartLine, colour, escape};
use std::fmt::Write;

/// Height of a line of the legend.
const ROW: usize = 24;
const WIDTH: usize = 960;
const HEIGHT: usize = 380;
const IN_A_ROW: usize = 5;

/// A line of a chart file.
#[derive(Debug, Clone)]
pub(crate) struct FileLine<'a> {
    /// Its name in the legend.
    pub(crate) name: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
    /// The least and the most of the runs behind a point: x, least, most. Empty for figures without
    /// runs.
    pub(crate) ranges: Vec<(f64, f64, f64)>,
}

impl<'a> From<(&'a str, Vec<(f64, f64)>)> for FileLine<'a> {
    fn from((name, points): (&'a str, Vec<(f64, f64)>)) -> FileLine<'a> {
        FileLine { name, points, ranges: Vec::new() }
    }
}

/// A chart as a file: its lines, and below them `origin`, which says when and from which commit the
/// figures are.
pub(crate) fn file(title: &str, x: &Axis, y: &Axis, lines: Vec<FileLine>, origin: &str) -> String {
    let legend = ROW * (1 + lines.len().div_ceil(IN_A_ROW));
    let height = legend + HEIGHT + ROW;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" fill=\"var(--faint)\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"var(--paper)\"/>"
    );
    let _ = write!(out, "<text x=\"76\" y=\"18\" font-weight=\"600\">{}</text>", escape(title));
    for (number, FileLine { name, .. }) in lines.iter().enumerate() {
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
        .map(|(number, FileLine { name, points, ranges })| ChartLine {
            points,
            ranges,
            colour: colour(number),
            dashed: false,
            title: name.to_owned(),
        })
        .collect();
    let drawn = chart::lines(title, x, y, &lines);
    // The chart's own frame gives way to this file's.
    let inside = drawn.split_once('>').map_or("", |(_, inside)| inside).trim_end_matches("</svg>");
    let _ = write!(out, "<g transform=\"translate(0 {legend})\">{inside}</g>");
    let _ = write!(out, "<text x=\"76\" y=\"{}\" font-size=\"11\">{}</text></svg>", height - 8, escape(origin));
    chart::as_file(&out)
}

#[test]
fn a_file_needs_no_css_and_says_where_it_comes_from() {
    let axis = |label| Axis { low: 0.0, high: 1.0, log: false, ticks: vec![(0.5, "half".to_owned())], label };
    let line = FileLine { name: "larder", points: vec![(0.0, 0.0), (1.0, 1.0)], ranges: vec![(1.0, 0.5, 1.0)] };
    let svg = file("title", &axis("x"), &axis("y"), vec![line], "2026-01-02, commit <abc>");
    let (before, rest) = svg.split_once("<style>@media (prefers-color-scheme: dark) {").expect("a dark scheme");
    let (dark, after) = rest.split_once("</style>").expect("its end");
    assert!(dark.contains("[fill=\"#fff\"] { fill: #16191d }"), "{dark}");
    let svg = [before, after].concat();
    assert!(!svg.contains("var(") && !svg.contains("class=") && !svg.contains("<style"), "{svg}");
    assert!(svg.contains("stroke=\"#0072b2\"") && svg.contains("<circle"), "{svg}");
    // The bar of the second point: half of the height.
    assert!(svg.contains("stroke=\"#0072b2\" x1=\"940.0\" x2=\"940.0\" y1=\"174.0\" y2=\"14.0\""), "{svg}");
    assert!(svg.contains(">2026-01-02, commit &lt;abc&gt;</text></svg>"), "{svg}");
}
