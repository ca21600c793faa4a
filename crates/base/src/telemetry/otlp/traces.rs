//! Spans as one `ExportTraceServiceRequest`.
use super::resource::{OtlpResource, attribute, nanos, scope, text, unix_nanos};
use crate::telemetry::tracer::{Span, SpanKind};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value::Value,
    trace::v1::{self as proto, ResourceSpans, ScopeSpans, Status, span, status::StatusCode},
};
use prost::Message as _;

/// These spans, encoded.
pub fn traces_message(resource: &OtlpResource, spans: &[Span]) -> Vec<u8> {
    let spans = spans.iter().map(encoded).collect();
    let scope_spans = vec![ScopeSpans { scope: scope(), spans, ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { resource: resource.resource(), scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

fn encoded(span: &Span) -> proto::Span {
    let begun = unix_nanos(span.begun);
    let texts = span.texts.iter().map(|(name, value)| text(name, value));
    let numbers = span.numbers.iter().map(|(name, value)| attribute(name, Value::IntValue(*value)));
    proto::Span {
        trace_id: span.trace.into(),
        span_id: span.id.into(),
        parent_span_id: span.parent.map(Into::into).unwrap_or_default(),
        // Sampled.
        flags: 1,
        name: span.name.to_string(),
        kind: match span.kind {
            SpanKind::Server => span::SpanKind::Server,
            SpanKind::Client => span::SpanKind::Client,
        }
        .into(),
        start_time_unix_nano: begun,
        end_time_unix_nano: begun.saturating_add(nanos(span.took)),
        attributes: texts.chain(numbers).collect(),
        status: span.has_failed.then(|| Status { code: StatusCode::Error.into(), ..Status::default() }),
        ..proto::Span::default()
    }
}
