//! All metrics as one `ExportMetricsServiceRequest`.
use super::resource::{OtlpResource, nanos, scope, text};
use crate::telemetry::{
    histogram::HistogramSample,
    metric_table::{Labels, MetricFamily, MetricKind, MetricSink, all_metrics},
    metrics_snapshot::Snapshot,
};
use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::KeyValue,
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
        ScopeMetrics, Sum, metric::Data, number_data_point::Value,
    },
};
use prost::Message as _;

/// The metrics at this moment, encoded.
pub fn metrics_message(resource: &OtlpResource, snapshot: &Snapshot) -> Vec<u8> {
    let begun = nanos(snapshot.started);
    let now = nanos(snapshot.started + snapshot.uptime);
    let metrics = all_metrics().map(|family| metric(family, snapshot, (begun, now)));
    let scope_metrics =
        ScopeMetrics { scope: scope(), metrics: metrics.filter(has_points).collect(), ..ScopeMetrics::default() };
    let resource_metrics = ResourceMetrics {
        resource: resource.resource(),
        scope_metrics: vec![scope_metrics],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }.encode_to_vec()
}

fn metric(family: &MetricFamily, snapshot: &Snapshot, times: (u64, u64)) -> Metric {
    let mut points = Points { times, numbers: Vec::new(), histograms: Vec::new() };
    (family.read)(snapshot, &mut points);
    let Points { numbers: data_points, histograms, .. } = points;
    let aggregation_temporality = AggregationTemporality::Cumulative.into();
    let name = family.name.strip_suffix("_total").unwrap_or(family.name);
    Metric {
        name: name.to_owned(),
        description: family.help.to_owned(),
        unit: unit(name).to_owned(),
        data: Some(match family.kind {
            MetricKind::Counter => Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true }),
            MetricKind::Gauge | MetricKind::Info => Data::Gauge(Gauge { data_points }),
            MetricKind::Histogram => Data::Histogram(Histogram { data_points: histograms, aggregation_temporality }),
        }),
        ..Metric::default()
    }
}

/// By UCUM, from the name.
fn unit(name: &str) -> &'static str {
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        Some("ratio") => "1",
        _ => "",
    }
}

fn has_points(metric: &Metric) -> bool {
    match &metric.data {
        Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
        Some(Data::Gauge(gauge)) => !gauge.data_points.is_empty(),
        Some(Data::Histogram(histogram)) => !histogram.data_points.is_empty(),
        _ => false,
    }
}

struct Points {
    /// When counting began and when it was read, nanoseconds since the Unix epoch.
    times: (u64, u64),
    numbers: Vec<NumberDataPoint>,
    histograms: Vec<HistogramDataPoint>,
}

impl Points {
    fn add(&mut self, labels: Labels<'_>, value: Value) {
        let (start_time_unix_nano, time_unix_nano) = self.times;
        self.numbers.push(NumberDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano,
            time_unix_nano,
            value: Some(value),
            ..NumberDataPoint::default()
        });
    }
}

fn attributes(labels: Labels<'_>) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| text(name, value)).collect()
}

impl MetricSink for Points {
    fn number(&mut self, labels: Labels<'_>, value: u64) {
        self.add(labels, Value::AsInt(i64::try_from(value).unwrap_or(i64::MAX)));
    }
    fn seconds(&mut self, labels: Labels<'_>, value: f64) {
        self.add(labels, Value::AsDouble(value));
    }
    fn histogram(&mut self, labels: Labels<'_>, value: &HistogramSample) {
        let (start_time_unix_nano, time_unix_nano) = self.times;
        // Each bucket alone, and at the end those that are longer than all ends.
        let mut before = 0;
        let up_to = value.buckets.iter().map(|(_, count)| *count).chain([value.count]);
        let bucket_counts = up_to.map(|count| count.saturating_sub(std::mem::replace(&mut before, count))).collect();
        self.histograms.push(HistogramDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano,
            time_unix_nano,
            count: value.count,
            sum: Some(value.seconds),
            bucket_counts,
            explicit_bounds: value.buckets.iter().map(|(end, _)| *end).collect(),
            ..HistogramDataPoint::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{BuffersSnapshot, PushSnapshot, Telemetry};
    use std::time::Duration;

    #[test]
    fn the_message_has_the_numbers_of_the_metrics() {
        let telemetry = Telemetry::default();
        telemetry.control().http_bytes_in.add(7);
        telemetry.control().http_times[crate::telemetry::HttpRoute::ALL[0]].record(Duration::from_millis(3));
        let snapshot = telemetry.snapshot(Vec::new(), PushSnapshot::default(), BuffersSnapshot::default());
        let message = metrics_message(&OtlpResource::new("i", None, &[]), &snapshot);
        let read = ExportMetricsServiceRequest::decode(&*message).expect("a message");
        let metrics = &read.resource_metrics[0].scope_metrics[0].metrics;
        let find = |name: &str| metrics.iter().find(|metric| metric.name == name).expect(name);
        let Some(Data::Sum(received)) = &find("larder_received_bytes").data else { panic!("no sum") };
        assert!(
            received.is_monotonic
                && received.aggregation_temporality == 2
                && find("larder_received_bytes").unit == "By"
        );
        let http = &received.data_points[0];
        assert_eq!((&http.attributes[0].key, &http.value), (&"protocol".to_owned(), &Some(Value::AsInt(7))));
        assert!(http.start_time_unix_nano > 0 && http.start_time_unix_nano <= http.time_unix_nano);
        let Some(Data::Histogram(times)) = &find("larder_http_request_duration_seconds").data else { panic!("none") };
        let point = times.data_points.iter().find(|point| point.count == 1).expect("one request");
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        let bucket = point.bucket_counts.iter().position(|count| *count == 1).expect("a bucket");
        assert_eq!((point.bucket_counts.iter().sum::<u64>(), point.explicit_bounds[bucket]), (1, 0.004_096));
        assert!(metrics.iter().all(|metric| has_points(metric) && !metric.name.ends_with("_total")));
    }
}
