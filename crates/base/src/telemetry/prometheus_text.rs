//! The text format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>), served as
//! `text/plain; version=0.0.4`, and OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).
use super::{
    histogram::HistogramSample,
    metric_table::{Labels, MetricFamily, MetricKind, MetricSink, all_metrics},
    metrics_snapshot::Snapshot,
};
use std::fmt::{Display, Write as _};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Version 0.0.4.
    Prometheus,
    /// Version 1.0. The family of a counter has no `_total`, and an info is no gauge.
    OpenMetrics,
}

/// Renders all metrics.
pub fn prometheus_text(snapshot: &Snapshot, format: MetricsFormat) -> String {
    let mut out = String::with_capacity(16 << 10);
    let is_open = format == MetricsFormat::OpenMetrics;
    for family in all_metrics() {
        let MetricFamily { name, kind, help, read } = family;
        let (kind, suffix) = match kind {
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Info if is_open => ("info", "_info"),
            MetricKind::Gauge | MetricKind::Info => ("gauge", ""),
            MetricKind::Histogram => ("histogram", ""),
        };
        let shown = if is_open { name.strip_suffix(suffix).unwrap_or(name) } else { name };
        let _ = writeln!(out, "# HELP {shown} {help}\n# TYPE {shown} {kind}");
        read(snapshot, &mut Text { out: &mut out, name });
    }
    if is_open {
        out.push_str("# EOF\n");
    }
    out
}

struct Text<'a> {
    out: &'a mut String,
    name: &'a str,
}

impl Text<'_> {
    fn sample(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) {
        self.out.push_str(self.name);
        self.out.push_str(suffix);
        for (index, (name, value)) in labels.iter().enumerate() {
            self.out.push(if index == 0 { '{' } else { ',' });
            self.out.push_str(name);
            self.out.push_str("=\"");
            escape(value, self.out);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }
}

impl MetricSink for Text<'_> {
    fn number(&mut self, labels: Labels<'_>, value: u64) {
        self.sample("", labels, value);
    }
    fn seconds(&mut self, labels: Labels<'_>, value: f64) {
        self.sample("", labels, value);
    }
    fn histogram(&mut self, labels: Labels<'_>, value: &HistogramSample) {
        for (end, count) in &value.buckets {
            let end = end.to_string();
            self.sample("_bucket", &[labels, &[("le", end.as_str())]].concat(), count);
        }
        self.sample("_bucket", &[labels, &[("le", "+Inf")]].concat(), value.count);
        self.sample("_sum", labels, value.seconds);
        self.sample("_count", labels, value.count);
    }
}

/// Label values: backslash, quote and line feed are escaped.
fn escape(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}
