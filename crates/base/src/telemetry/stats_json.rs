//! The same numbers as JSON, for `/v1/stats`: `{"redis_commands": 5, "connections": {"http": 1},
//! "groups": {"default": {"cache_hits": 7}}}`.
//!
//! Beside them it has what Prometheus computes from them: for each group `cache_hit_ratio`, the share
//! of reads that the memory tier answered (`null`: there were none), and for each histogram `p50`,
//! `p99` and `p99.9`.
//!
//! A family is a key ([`MetricFamily::key`]); the label `group` comes first, under `groups`; any
//! other label nests by its value. A histogram is `{"count", "sum", "buckets": {"0.000016": n, …}}`
//! in seconds, each bucket with all that is shorter, as in `/metrics`.
use super::{
    histogram::HistogramSample,
    metric_table::{Labels, MetricFamily, MetricKind, MetricSink, all_metrics},
    metrics_snapshot::Snapshot,
};
use larder_engine::Stats;
use serde_json::{Map, Value};

const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Renders all metrics.
pub fn stats_json(snapshot: &Snapshot) -> Value {
    let mut root = Map::new();
    for family in all_metrics() {
        (family.read)(snapshot, &mut Json { root: &mut root, family });
    }
    for group in &snapshot.groups {
        root["groups"][&group.name]["cache_hit_ratio"] = hit_ratio(&group.cache).into();
    }
    Value::Object(root)
}

/// The share of reads that the memory tier answered, absences included; `None`: there were none.
pub fn hit_ratio(cache: &Stats) -> Option<f64> {
    let answered = cache.hits + cache.negative_hits;
    let reads = answered + cache.misses;
    (reads > 0).then(|| answered as f64 / reads as f64)
}

struct Json<'a> {
    root: &'a mut Map<String, Value>,
    family: &'a MetricFamily,
}

impl Json<'_> {
    fn put(&mut self, labels: Labels<'_>, value: Value) {
        if self.family.kind == MetricKind::Info {
            let said = labels.iter().map(|(name, value)| (name.to_string(), Value::from(*value)));
            self.root.insert(self.family.key().to_string(), Value::Object(said.collect()));
            return;
        }
        let (group, rest): (Vec<_>, Vec<_>) = labels.iter().partition(|(name, _)| *name == "group");
        let mut path: Vec<&str> = group.iter().flat_map(|(_, group)| ["groups", *group]).collect();
        path.push(self.family.key());
        path.extend(rest.iter().map(|(_, value)| *value));
        let leaf = path.pop().unwrap_or_default();
        let mut at = &mut *self.root;
        for step in path {
            let inner = at.entry(step).or_insert_with(|| Value::Object(Map::new()));
            at = inner.as_object_mut().expect("a family has labels always or never");
        }
        at.insert(leaf.to_string(), value);
    }
}

impl MetricSink for Json<'_> {
    fn number(&mut self, labels: Labels<'_>, value: u64) {
        self.put(labels, value.into());
    }
    fn seconds(&mut self, labels: Labels<'_>, value: f64) {
        self.put(labels, value.into());
    }
    fn histogram(&mut self, labels: Labels<'_>, value: &HistogramSample) {
        let buckets: Map<String, Value> =
            value.buckets.iter().map(|(end, count)| (end.to_string(), (*count).into())).collect();
        let mut said = serde_json::json!({"count": value.count, "sum": value.seconds, "buckets": buckets});
        for (name, share) in QUANTILES {
            said[name] = value.quantile(share).into();
        }
        self.put(labels, said);
    }
}
