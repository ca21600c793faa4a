//! What the API server says about pods, as far as Larder reads it: lists, and events of a watch
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes>).
use super::kubernetes_api::StatusObject;
use larder_config::Zone;
use serde::Deserialize;
use std::{collections::BTreeMap, net::IpAddr};

/// Kubernetes writes a node's zone into this label, and from 1.35 on into that of its pods.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// A pod at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    /// Unique in the namespace.
    pub(super) name: String,
    /// Of each family at most one. Empty: it has none yet.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) zone: Option<Zone>,
    /// It passes its probe, and it is not being deleted.
    pub(super) is_ready: bool,
    /// Its containers have ended for good.
    pub(super) has_ended: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct PodPage {
    pub(super) pods: Vec<Pod>,
    /// Where a watch goes on from.
    pub(super) version: String,
    /// Asks for the next page; empty: this is the last.
    pub(super) next: String,
}

/// A line of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PodEvent {
    /// The pod is there, or has changed.
    Is(Pod, String),
    /// The pod of this name is no more, or is selected no more.
    Gone(String, String),
    /// Nothing has changed up to this version.
    Bookmark(String),
    /// The version is older than what the server remembers.
    Outdated,
    /// Something else is wrong; a text for people.
    Failed(String),
}

#[derive(Deserialize)]
struct ListObject {
    #[serde(default)]
    metadata: Metadata,
    items: Vec<PodObject>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    labels: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<String>,
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodObject {
    metadata: Metadata,
    status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: String,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct PodIp {
    #[serde(default)]
    ip: String,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Deserialize)]
struct EventObject<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a serde_json::value::RawValue,
}

/// A page of pods, JSON.
///
/// # Errors
/// It is none; a text for people.
pub(super) fn read_page(body: &[u8]) -> Result<PodPage, String> {
    let list: ListObject = serde_json::from_slice(body).map_err(|error| format!("not a list of pods: {error}"))?;
    let Metadata { resource_version: version, next, .. } = list.metadata;
    Ok(PodPage { pods: list.items.into_iter().map(Pod::of).collect(), version, next })
}

/// A line of a watch, JSON.
///
/// # Errors
/// It is none; a text for people.
pub(super) fn read_event(line: &[u8]) -> Result<PodEvent, String> {
    let wrong = |error| format!("not an event of a watch: {error}");
    let event: EventObject<'_> = serde_json::from_slice(line).map_err(wrong)?;
    if event.kind == "ERROR" {
        let status: StatusObject = serde_json::from_str(event.object.get()).map_err(wrong)?;
        return Ok(match status.code {
            410 => PodEvent::Outdated,
            code => PodEvent::Failed(format!("{code}: {}", status.message)),
        });
    }
    let object: PodObject = serde_json::from_str(event.object.get()).map_err(wrong)?;
    let version = object.metadata.resource_version.clone();
    match event.kind {
        "ADDED" | "MODIFIED" => Ok(PodEvent::Is(Pod::of(object), version)),
        "DELETED" => Ok(PodEvent::Gone(object.metadata.name, version)),
        "BOOKMARK" => Ok(PodEvent::Bookmark(version)),
        other => Err(format!("not an event of a watch: it is of type `{other}`")),
    }
}

impl Pod {
    fn of(PodObject { metadata, status }: PodObject) -> Pod {
        let all = status.pod_ips.unwrap_or_default();
        let mut addresses: Vec<IpAddr> =
            all.iter().map(|ip| &ip.ip).chain([&status.pod_ip]).filter_map(|ip| ip.parse().ok()).collect();
        addresses.sort();
        addresses.dedup();
        let is_ready = status.conditions.unwrap_or_default().iter().any(|it| it.kind == "Ready" && it.status == "True");
        let zone = metadata.labels.and_then(|labels| labels.get(ZONE_LABEL)?.parse().ok());
        Pod {
            name: metadata.name,
            is_ready: is_ready && metadata.deletion_timestamp.is_none(),
            has_ended: matches!(&*status.phase, "Succeeded" | "Failed"),
            addresses,
            zone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const READY: &str = r#"{"metadata":{"name":"larder-0","resourceVersion":"7","labels":{"topology.kubernetes.io/zone":"a"},"managedFields":[{}]},
        "spec":{"containers":[]},"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"},{"ip":"fd00::1"}],
        "conditions":[{"type":"Initialized","status":"True"},{"type":"Ready","status":"True"}]}}"#;

    fn pod(json: &str) -> Pod {
        Pod::of(serde_json::from_str(json).expect("a pod"))
    }

    #[test]
    fn a_pod_is_read_from_its_object() {
        let ready = pod(READY);
        let addresses = ["10.0.0.1", "fd00::1"].map(|ip| ip.parse().expect("an address")).to_vec();
        let zone = "a".parse().ok();
        assert_eq!(ready, Pod { name: "larder-0".to_owned(), addresses, zone, is_ready: true, has_ended: false });
        assert!(!pod(&READY.replace("\"Ready\",\"status\":\"True\"", "\"Ready\",\"status\":\"False\"")).is_ready);
        let ending =
            READY.replace("\"resourceVersion\"", "\"deletionTimestamp\":\"2026-11-23T10:00:00Z\",\"resourceVersion\"");
        assert!(!pod(&ending).is_ready, "it was asked to end");
        assert!(pod(&READY.replace("Running", "Failed")).has_ended);
        let pending = pod(r#"{"metadata":{"name":"b"},"status":{"phase":"Pending"}}"#);
        assert!(pending.addresses.is_empty() && !pending.is_ready);
    }

    #[test]
    fn pages_and_events() {
        let page = read_page(
            format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"9","continue":"c"}},"items":[{READY}]}}"#)
                .as_bytes(),
        );
        assert_eq!(page, Ok(PodPage { pods: vec![pod(READY)], version: "9".to_owned(), next: "c".to_owned() }));
        let event =
            |kind: &str, object: &str| read_event(format!(r#"{{"type":"{kind}","object":{object}}}"#).as_bytes());
        assert_eq!(event("ADDED", READY), Ok(PodEvent::Is(pod(READY), "7".to_owned())));
        assert_eq!(event("DELETED", READY), Ok(PodEvent::Gone("larder-0".to_owned(), "7".to_owned())));
        let bookmark = r#"{"kind":"Pod","metadata":{"resourceVersion":"12","creationTimestamp":null},"spec":{"containers":null},"status":{}}"#;
        assert_eq!(event("BOOKMARK", bookmark), Ok(PodEvent::Bookmark("12".to_owned())));
        let gone = r#"{"kind":"Status","status":"Failure","message":"too old resource version","reason":"Expired","code":410}"#;
        assert_eq!(event("ERROR", gone), Ok(PodEvent::Outdated));
        assert_eq!(event("ERROR", r#"{"message":"m","code":500}"#), Ok(PodEvent::Failed("500: m".to_owned())));
        assert!(event("OTHER", READY).is_err() && read_event(b"{}").is_err() && read_page(b"{}").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..400usize, to in any::<u8>()) {
            let _ = (read_page(&bytes), read_event(&bytes));
            let mut changed = format!(r#"{{"type":"ADDED","object":{READY}}}"#).into_bytes();
            let len = changed.len();
            changed[at % len] = to;
            let _ = read_event(&changed);
        }
    }
}
