//! Charts as SVG: lines over two axes, and heat maps. Colours are CSS variables of the page
//! ([`STYLE`]), so they follow its light or dark scheme.
use crate::lib::figures::median;
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// What charts need of the page's style.
pub(crate) const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --faint: #5c6570; --grid: #e3e6ea; --heat: #b2182b; --bad: #c0392b;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #8a6d00; --c5: #56b4e9; --c6: #6a3d9a; --c7: #555; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #16191d; --faint: #9aa4af; --grid: #2c3138; --heat: #ffb454; --bad: #ff7b6b;
  --c0: #4db2ff; --c1: #ff9d4d; --c2: #3fd6a8; --c3: #f0a6cf; --c4: #e5c84b; --c5: #8fd3ff; --c6: #b99aff; --c7: #bbb; } }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--faint); font: 13px system-ui, sans-serif; }
svg .grid { stroke: var(--grid); stroke-width: 1; }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .range { stroke-width: 1.5; stroke-opacity: 0.6; }
svg .heat { fill: var(--heat); }
";

/// What the classes of [`STYLE`] stand for in the light scheme.
const PLAIN: [(&str, &str); 4] = [
    ("class=\"grid\"", "stroke=\"var(--grid)\" stroke-width=\"1\""),
    ("class=\"line\"", "fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\""),
    ("class=\"range\"", "stroke-width=\"1.5\" stroke-opacity=\"0.6\""),
    ("class=\"heat\"", "fill=\"var(--heat)\""),
];

/// Names and values of the colours of [`STYLE`]: the light scheme, and the dark one.
fn colours() -> [Vec<(&'static str, &'static str)>; 2] {
    let (light, dark) = STYLE.split_once("@media").expect("two schemes");
    [light, dark].map(|scheme| {
        let variables = scheme.split("--").skip(1).filter_map(|rest| rest.split_once(": "));
        variables.filter_map(|(name, rest)| Some((name, rest.split_once(';')?.0))).collect()
    })
}

/// A chart as a file: its colours are attributes, for programs that know no CSS, and the light ones.
/// Browsers of a reader with a dark scheme replace them.
pub(crate) fn as_file(svg: &str) -> String {
    let [light, dark] = colours();
    let svg = PLAIN.iter().fold(svg.to_owned(), |svg, (from, to)| svg.replace(from, to));
    let svg = light.iter().fold(svg, |svg, (name, value)| svg.replace(&format!("var(--{name})"), value));
    let rules = light.iter().zip(dark).map(|((_, light), (_, dark))| {
        format!("[fill=\"{light}\"] {{ fill: {dark} }} [stroke=\"{light}\"] {{ stroke: {dark} }}")
    });
    let rules: Vec<String> = rules.collect();
    let style = format!("<style>@media (prefers-color-scheme: dark) {{ {} }}</style>", rules.join(" "));
    svg.replacen('>', &format!(">{style}"), 1)
}

/// The colour of the n-th thing that is compared.
pub(crate) fn colour(number: usize) -> String {
    format!("var(--c{})", number % 8)
}

/// Text in HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// An axis: a range of values, the values that are marked, and what it shows.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Logarithmic; its range lies above 0.
    pub(crate) log: bool,
    pub(crate) ticks: Vec<(f64, String)>,
    pub(crate) label: &'static str,
}

impl Axis {
    /// From 0 to at least `high`, marked at round numbers.
    pub(crate) fn linear(high: f64, label: &'static str) -> Axis {
        let high = if high > 0.0 { high } else { 1.0 };
        let decade = 10f64.powf((high / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|unit| unit * decade).into_iter().find(|step| high / step <= 6.0);
        let step = step.unwrap_or(high);
        let count = (high / step - 1e-9).ceil() as u32;
        let ticks = (0..=count).map(|tick| (f64::from(tick) * step, plain(f64::from(tick) * step))).collect();
        Axis { low: 0.0, high: f64::from(count) * step, log: false, ticks, label }
    }

    /// From the decade below `low` to the one above `high`; narrow ranges keep their ends. Nothing
    /// to show has an infinite `low`.
    pub(crate) fn log(low: f64, high: f64, label: &'static str) -> Axis {
        let low = if low.is_finite() { low.max(1e-6) } else { 1.0 };
        let high = high.max(low * 2.0);
        let units: &[f64] = if high / low > 300.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all = (-7..12).flat_map(|decade| units.iter().map(move |unit| unit * 10f64.powi(decade)));
        let all: Vec<f64> = all.collect();
        let first = all.iter().rposition(|&tick| tick <= low * 1.0001).unwrap_or(0);
        let last = all.iter().position(|&tick| tick >= high * 0.9999).unwrap_or(all.len() - 1);
        let ticks = all[first..=last].iter().map(|&tick| (tick, plain(tick))).collect();
        Axis { low: all[first], high: all[last], log: true, ticks, label }
    }

    fn share(&self, value: f64) -> f64 {
        let at = |value: f64| if self.log { value.max(self.low).ln() } else { value };
        ((at(value) - at(self.low)) / (at(self.high) - at(self.low))).clamp(0.0, 1.0)
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.share(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.share(value) * (HEIGHT - TOP - BOTTOM)
    }
}

/// A number without needless digits: 0.05, 20, 1.5k, 2M.
pub(crate) fn plain(value: f64) -> String {
    let (value, unit) = match value.abs() {
        1e6.. => (value / 1e6, "M"),
        1e4.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = if value.abs() >= 100.0 || value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).max(0) };
    let text = format!("{value:.*}", digits as usize);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// A line of a chart.
#[derive(Debug, Clone)]
pub(crate) struct ChartLine {
    pub(crate) points: Vec<(f64, f64)>,
    /// The least and the most of the runs behind a point: x, least, most.
    pub(crate) ranges: Vec<(f64, f64, f64)>,
    pub(crate) colour: String,
    pub(crate) dashed: bool,
    /// Shown when the pointer rests on it.
    pub(crate) title: String,
}

fn frame(out: &mut String, x: &Axis, y: &Axis, title: &str) {
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\"><title>{0}</title>",
        escape(title)
    );
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (value, label) in &x.ticks {
        let at = x.x(*value);
        // A long label at the right end would run over the edge: digits are at most 7.5 wide.
        let middle = at.min(WIDTH - 3.75 * label.chars().count() as f64);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom + 18.0
        );
    }
    for (value, label) in &y.ticks {
        let at = y.y(*value);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 6.0,
        escape(x.label),
        (TOP + bottom) / 2.0,
        escape(y.label)
    );
}

/// Lines over two axes.
pub(crate) fn lines(title: &str, x: &Axis, y: &Axis, lines: &[ChartLine]) -> String {
    let mut out = String::new();
    frame(&mut out, x, y, title);
    for line in lines {
        let points: Vec<String> =
            line.points.iter().map(|&(px, py)| format!("{:.1},{:.1}", x.x(px), y.y(py))).collect();
        let dash = if line.dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let _ = write!(
            out,
            "<polyline class=\"line\" stroke=\"{}\"{dash} points=\"{}\"><title>{}</title></polyline>",
            line.colour,
            points.join(" "),
            escape(&line.title)
        );
        for &(px, low, high) in &line.ranges {
            let _ = write!(
                out,
                "<line class=\"range\" stroke=\"{0}\" x1=\"{1:.1}\" x2=\"{1:.1}\" y1=\"{2:.1}\" y2=\"{3:.1}\"/>",
                line.colour,
                x.x(px),
                y.y(low),
                y.y(high)
            );
        }
        // Few points are measurements that can be told apart.
        if line.points.len() <= 16 {
            for &(px, py) in &line.points {
                let _ = write!(
                    out,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{}\"/>",
                    x.x(px),
                    y.y(py),
                    line.colour
                );
            }
        }
    }
    out + "</svg>"
}

/// Figures of one name: what is measured, and the figure of each run.
pub(crate) type Repeated<'a> = (&'a str, Vec<f64>);

/// Each run's figure as a point in the column of its name, the range of a name's runs as a line, and
/// their median as a bar.
pub(crate) fn points(title: &str, y: &Axis, columns: &[Repeated]) -> String {
    const HALF: f64 = 14.0;
    let ticks = columns.iter().enumerate().map(|(number, (name, _))| (number as f64 + 0.5, escape(name)));
    let x = Axis { low: 0.0, high: columns.len() as f64, log: false, ticks: ticks.collect(), label: "run" };
    let mut out = String::new();
    frame(&mut out, &x, y, title);
    for (number, (name, figures)) in columns.iter().enumerate() {
        let at = x.x(number as f64 + 0.5);
        let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let high = figures.iter().copied().fold(0.0, f64::max);
        let (colour, middle) = (colour(0), y.y(median(figures)));
        let _ = write!(
            out,
            "<line class=\"range\" stroke=\"{colour}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <line class=\"range\" stroke=\"{colour}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>",
            y.y(low),
            y.y(high),
            at - HALF,
            at + HALF
        );
        for figure in figures {
            let _ = write!(
                out,
                "<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"><title>{}: {}</title></circle>",
                y.y(*figure),
                escape(name),
                plain(*figure)
            );
        }
    }
    out + "</svg>"
}

/// A cell of a heat map: from `x.0` to `x.1` and `y.0` to `y.1`, a number, and what it stands for.
#[derive(Debug, Clone)]
pub(crate) struct HeatCell {
    pub(crate) x: (f64, f64),
    pub(crate) y: (f64, f64),
    pub(crate) count: u64,
    pub(crate) title: String,
}

/// A heat map: the darker, the more; by logarithm, so that a single slow request is still seen.
pub(crate) fn heat(title: &str, x: &Axis, y: &Axis, cells: &[HeatCell]) -> String {
    let mut out = String::new();
    frame(&mut out, x, y, title);
    let most = cells.iter().map(|cell| cell.count).max().unwrap_or(1) as f64;
    for cell in cells {
        let (left, right, low, high) = (x.x(cell.x.0), x.x(cell.x.1), y.y(cell.y.0), y.y(cell.y.1));
        let strength = 0.15 + 0.85 * (cell.count as f64).ln_1p() / most.ln_1p();
        let _ = write!(
            out,
            "<rect class=\"heat\" x=\"{left:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
             fill-opacity=\"{strength:.2}\"><title>{}</title></rect>",
            (right - left).max(0.5),
            (low - high).max(0.5),
            escape(&cell.title)
        );
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(0.0, "0"), (0.05, "0.05"), (20.0, "20"), (1500.0, "1500"), (15_000.0, "15k"), (2e6, "2M")]
        {
            assert_eq!(plain(value), text);
        }
    }

    #[test]
    fn axes_hold_their_range() {
        for high in [0.0, 0.3, 7.0, 19_999.0, 123_456.0] {
            let axis = Axis::linear(high, "");
            assert!(axis.high >= high && axis.ticks.len() >= 3 && axis.ticks.len() <= 8, "{axis:?}");
        }
        for (low, high) in [(0.01, 200.0), (0.02, 0.5), (3.0, 3.0), (0.0, 0.0)] {
            let axis = Axis::log(low, high, "");
            assert!(axis.low <= low.max(1e-6) && axis.high >= high && axis.ticks.len() >= 2, "{axis:?}");
        }
        let axis = Axis::log(0.1, 10.0, "");
        assert_eq!((axis.share(0.1), axis.share(10.0)), (0.0, 1.0));
        assert!((axis.share(1.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_long_label_at_the_right_end_stays_within_the_chart() {
        let axis = |label: &str| {
            let ticks = vec![(1.0, label.to_owned())];
            Axis { low: 0.0, high: 1.0, log: false, ticks, label: "" }
        };
        let drawn = |label| lines("", &axis(label), &axis(""), &[]);
        assert!(drawn("64 KiB").contains("<text x=\"937.5\""), "{}", drawn("64 KiB"));
        assert!(drawn("4 KiB").contains("<text x=\"940.0\""), "{}", drawn("4 KiB"));
    }

    #[test]
    fn names_cannot_break_out() {
        let line = ChartLine {
            points: vec![(0.0, 1.0)],
            ranges: Vec::new(),
            colour: colour(0),
            dashed: false,
            title: "<script>".into(),
        };
        let axis = Axis::linear(1.0, "");
        assert!(!lines("\"><b>", &axis, &axis, &[line]).contains("<script"));
    }
}
