//! What all messages say of this process, and the parts that they are made of.
use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the messages say of this process.
#[derive(Debug, Clone)]
pub struct OtlpResource {
    /// `service.instance.id`: different in each process.
    pub instance: String,
}

impl OtlpResource {
    pub(super) fn resource(&self) -> Option<Resource> {
        let attributes = [
            ("service.name", "larder"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", self.instance.as_str()),
        ];
        let attributes = attributes.map(|(name, value)| text(name, value)).into();
        Some(Resource { attributes, ..Resource::default() })
    }
}

pub(super) fn scope() -> Option<InstrumentationScope> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Some(InstrumentationScope { name: "larder".to_owned(), version, ..InstrumentationScope::default() })
}

pub(super) fn text(name: &str, value: &str) -> KeyValue {
    attribute(name, Value::StringValue(value.to_owned()))
}

pub(super) fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Nanoseconds since the Unix epoch.
pub(super) fn unix_nanos(at: SystemTime) -> u64 {
    nanos(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
