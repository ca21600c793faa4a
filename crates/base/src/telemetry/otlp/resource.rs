//! What all messages say of this process, and the parts that they are made of.
use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the messages say of this process.
#[derive(Debug, Clone)]
pub struct OtlpResource {
    attributes: Vec<KeyValue>,
}

impl OtlpResource {
    /// `instance` is different in each process. `given` attributes outweigh Larder's own.
    pub fn new(instance: &str, given: &[(String, String)]) -> OtlpResource {
        let mut attributes = vec![
            text("service.name", "larder"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", instance),
        ];
        for (name, value) in given {
            let pair = text(name, value);
            match attributes.iter_mut().find(|known| known.key == *name) {
                Some(known) => *known = pair,
                None => attributes.push(pair),
            }
        }
        OtlpResource { attributes }
    }

    pub(super) fn resource(&self) -> Option<Resource> {
        Some(Resource { attributes: self.attributes.clone(), ..Resource::default() })
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
