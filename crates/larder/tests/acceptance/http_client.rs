//! As much of an HTTP client as the tests need.
use crate::larder::Larder;
use serde_json::Value;

/// `GET` on a connection of its own: the status and the body.
pub(crate) fn get(larder: &Larder, target: &str) -> (u16, String) {
    let (status, _, body) = larder.http(&format!("GET {target} HTTP/1.1\r\nhost: larder\r\nconnection: close\r\n\r\n"));
    (status, String::from_utf8(body).unwrap())
}

/// `GET /lookup`: the status, which stands in the body as well, and the value. The body is held to
/// its documented bytes.
pub(crate) fn lookup(larder: &Larder, key: &str) -> (u16, Value) {
    let (status, body) = get(larder, &format!("/lookup?key={key}"));
    let value: Value = serde_json::from_str(&body).expect("JSON");
    let wanted = format!(r#"{{"key": "{key}", "value": {}, "status": {status}}}"#, value["value"]);
    assert_eq!(body, wanted);
    (status, value["value"].clone())
}
