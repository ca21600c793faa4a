//! As much of an HTTP client as the tests need: one GET on a connection of its own.
use crate::common::PATIENCE;
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

/// The status and the body.
pub(crate) fn get(address: SocketAddr, target: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    (status.expect("a status line").parse().unwrap(), body.to_owned())
}

/// `GET /lookup`, whose status stands in the body as well; the body is held to its documented bytes.
pub(crate) fn lookup(address: SocketAddr, key: &str) -> (u16, Value) {
    let (status, body) = get(address, &format!("/lookup?key={key}"));
    let value: Value = serde_json::from_str(&body).expect("JSON");
    let wanted = format!(r#"{{"key": "{key}", "value": {}, "status": {status}}}"#, value["value"]);
    assert_eq!(body, wanted);
    (status, value["value"].clone())
}
