//! The item API: items, elements and keys, over real sockets in process. The facts in the tables
//! were recorded on GCache's server.
mod both_paths;
mod forms;
mod keys;
mod limits;
mod model;
mod paths;
mod recorded;

use crate::tests::support::{Client, Reply};

pub(super) fn request(method: &str, target: &str, body: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

pub(super) async fn item(client: &mut Client, method: &str, body: &str) -> Reply {
    client.send(request(method, "/cache/v1/item", body)).await
}

pub(super) async fn keys(client: &mut Client, body: &str) -> Reply {
    client.send(request("GET", "/cache/v1/keys", body)).await
}

pub(super) fn code(reply: &Reply) -> (u16, u64) {
    (reply.status, reply.json()["code"].as_u64().expect("a code"))
}

pub(super) const NOT_FOUND: &str = r#"{"code":21,"reason":"value not found"}"#;
pub(super) const NO_KEY: &str = r#"{"code":10,"reason":"no key provided"}"#;
pub(super) const CANNOT_DECODE: &str = r#"{"code":2,"reason":"cannot decode request"}"#;
pub(super) const BAD_TTL: &str = r#"{"code":12,"reason":"bad key TTL"}"#;
