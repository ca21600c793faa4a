//! The request that another node is asked for: what it is told of it.
use http::{HeaderMap, HeaderName, HeaderValue};
use larder_source::RequestTrace;

/// The asking node's name, where it logs the request.
pub const ASKING_NODE: HeaderName = HeaderName::from_static("larder-node");

/// The request that a node is asked for, and the node that asks.
#[derive(Debug, Clone, Copy)]
pub struct AskedFor<'a> {
    pub node: &'a str,
    pub(crate) trace: Option<&'a RequestTrace>,
}

impl AskedFor<'_> {
    /// For no request of a client.
    pub(super) const NOBODY: AskedFor<'static> = AskedFor { node: "", trace: None };

    /// Adds the header fields.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        let Some(trace) = self.trace else { return };
        let mut insert = |name, text: &str| {
            if let Ok(text) = HeaderValue::from_str(text) {
                headers.insert(name, text);
            }
        };
        insert(HeaderName::from_static("x-request-id"), &trace.request_id);
        if let Some(traceparent) = &trace.traceparent {
            insert(HeaderName::from_static("traceparent"), traceparent);
        }
        if trace.is_logged {
            insert(ASKING_NODE, self.node);
        }
    }
}
