//! The same numbers as JSON, for `/v1/stats`: `{"redis_commands": 5, "connections": {"http": 1},
//! "groups": {"default": {"cache_hits": 7}}}`.
//!
//! A family is a key ([`MetricFamily::key`]); the label `group` comes first, under `groups`; any
//! other label nests by its value. A histogram is `{"count", "sum", "buckets": {"0.000016": n, …}}`
//! in seconds, each bucket with all that is shorter, as in `/metrics`.
use super::{
    histogram::Distribution,
    metric_table::{Labels, METRICS, MetricFamily, MetricKind, MetricSink},
    metrics_snapshot::Snapshot,
};
use serde_json::{Map, Value};

/// Renders all metrics.
pub fn stats_json(snapshot: &Snapshot) -> Value {
    let mut root = Map::new();
    for family in METRICS {
        (family.read)(snapshot, &mut Json { root: &mut root, family });
    }
    Value::Object(root)
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
    fn distribution(&mut self, labels: Labels<'_>, value: &Distribution) {
        let buckets: Map<String, Value> =
            value.cumulative().map(|(end, count)| (end.to_string(), count.into())).collect();
        self.put(labels, serde_json::json!({"count": value.count, "sum": value.seconds(), "buckets": buckets}));
    }
}
