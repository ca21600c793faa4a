//! What an HTTP source says about a value is given back, and writes go through to it.
use super::common::Reply;
use super::{
    curl, curl_with,
    larder::Larder,
    scripted_origin::{ScriptedOrigin, answer},
};
use std::{collections::HashMap, sync::Mutex};

const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

#[test]
fn content_type_and_validators_are_given_back() {
    let origin = ScriptedOrigin::start(|asked| match &asked.target[1..] {
        "page" => answer(
            "200 OK",
            &format!(
                "content-type: text/html\r\netag: W/\"v1\"\r\nlast-modified: {MODIFIED}\r\ncache-control: max-age=60\r\n"
            ),
            "<p>",
        ),
        _ => answer("200 OK", "cache-control: max-age=60\r\n", "plain"),
    });
    let source = format!("http://127.0.0.1:{}/{{key}}", origin.port);
    let larder = Larder::start(&["--source", &source]);
    let url = |key: &str| format!("http://127.0.0.1:{}/v1/kv/{key}", larder.http);
    // Fetched, from memory, and without the body; curl's headers suit the fast path, `Range` does not.
    for more in [&[][..], &[], &["--head"], &["-H", "Range: bytes=0-0"]] {
        let found = curl(&[&[&*url("page")], more].concat());
        assert_eq!((found.status, found.header("content-type")), (200, Some("text/html")), "{}", found.headers);
        assert_eq!((found.header("etag"), found.header("last-modified")), (Some("W/\"v1\""), Some(MODIFIED)));
        assert!(found.header("cache-control").is_some_and(|text| text.starts_with("max-age=")), "{}", found.headers);
    }
    for (condition, status) in [
        ("If-None-Match: \"v1\"", 304),
        ("If-None-Match: \"v0\", W/\"v1\"", 304),
        ("If-None-Match: \"v2\"", 200),
        ("If-Match: \"v1\"", 412),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", 304),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT", 200),
    ] {
        let found = curl(&[&url("page"), "-H", condition]);
        assert_eq!(found.status, status, "{condition}");
        if status == 304 {
            assert_eq!((found.header("etag"), found.header("last-modified")), (Some("W/\"v1\""), Some(MODIFIED)));
        }
    }
    for _ in 0..2 {
        let plain = curl(&[&url("plain")]);
        assert_eq!(plain.header("content-type"), Some("application/octet-stream"));
        assert_eq!((plain.header("last-modified"), plain.header("etag").map(str::len)), (None, Some(18)));
    }
    assert_eq!(larder.client().command(&["GET", "page"]), Reply::bulk("<p>"));
    assert_eq!(origin.asked(), 2);
}

#[test]
fn what_is_not_kept_has_its_content_type_and_validators_too() {
    let origin = ScriptedOrigin::start(|asked| match &asked.target[1..] {
        "bare" => answer("200 OK", "cache-control: no-store\r\n", "v"),
        _ => answer(
            "200 OK",
            &format!(
                "content-type: text/html\r\netag: \"v1\"\r\nlast-modified: {MODIFIED}\r\ncache-control: no-store\r\n"
            ),
            "<p>",
        ),
    });
    let source = format!("http://127.0.0.1:{}/{{key}}", origin.port);
    let larder = Larder::start(&["--source", &source]);
    let url = |key: &str| format!("http://127.0.0.1:{}/v1/kv/{key}", larder.http);
    for more in [&[][..], &["-H", "If-None-Match: \"v0\""], &["--head"]] {
        let found = curl(&[&[&*url("page")], more].concat());
        assert_eq!((found.status, found.header("content-type")), (200, Some("text/html")), "{}", found.headers);
        assert_eq!((found.header("etag"), found.header("last-modified")), (Some("\"v1\""), Some(MODIFIED)));
        assert_eq!(
            (found.header("cache-status"), found.header("cache-control")),
            (Some("larder; fwd=miss"), Some("no-store"))
        );
        assert_eq!(found.header("age"), None);
    }
    let same = curl(&["-H", "If-None-Match: \"v1\"", &url("page")]);
    assert_eq!((same.status, same.header("etag")), (304, Some("\"v1\"")));
    let bare = curl(&[&url("bare")]);
    assert_eq!((bare.header("content-type"), bare.header("etag")), (Some("application/octet-stream"), None));
    assert_eq!(origin.asked(), 5, "nothing is kept");
}

#[test]
fn writes_go_through_where_that_is_set() {
    let values = Mutex::new(HashMap::<String, Vec<u8>>::new());
    let origin = ScriptedOrigin::start(move |asked| {
        let mut values = values.lock().unwrap();
        match asked.head.split(' ').next().unwrap() {
            "PUT" if asked.body.is_empty() => answer("422 Unprocessable Entity", "", "empty"),
            "PUT" => match values.insert(asked.target.clone(), asked.body.clone()) {
                None => answer("201 Created", "", ""),
                Some(_) => answer("204 No Content", "", ""),
            },
            "DELETE" => match values.remove(&asked.target) {
                None => answer("404 Not Found", "", ""),
                Some(_) => answer("204 No Content", "", ""),
            },
            _ => match values.get(&asked.target) {
                None => answer("404 Not Found", "cache-control: max-age=60\r\n", ""),
                Some(value) => answer("200 OK", "cache-control: max-age=60\r\n", value),
            },
        }
    });
    let source = format!("http://127.0.0.1:{}/{{key}}", origin.port);
    let larder = Larder::start(&["--source", &source, "--source-writes", "through"]);
    let url = |key: &str| format!("http://127.0.0.1:{}/v1/kv/{key}", larder.http);
    let put = |key: &str, value: &str| curl_with(value.as_bytes(), &[&url(key), "-X", "PUT", "--data-binary", "@-"]);
    assert_eq!(curl(&[&url("a")]).status, 404);
    assert_eq!((put("a", "1").status, put("a", "2").status), (201, 204));
    assert_eq!(curl(&[&url("a")]).text(), "2");
    let refused = put("a", "");
    assert_eq!(refused.status, 502);
    assert!(refused.text().contains("answered 422 Unprocessable Entity: empty"), "{}", refused.text());
    assert_eq!(put("a?ttl=1m", "3").status, 502, "a lifetime cannot be written");
    assert_eq!(curl(&[&url("a"), "-X", "DELETE"]).status, 204);
    assert_eq!(curl(&[&url("a"), "-X", "DELETE"]).status, 404);

    let mut client = larder.client();
    assert_eq!(client.command(&["SET", "b", "1"]), Reply::ok());
    assert_eq!(client.command(&["MSET", "b", "2", "c", "3"]), Reply::ok());
    assert_eq!(client.command(&["GET", "b"]), Reply::bulk("2"));
    assert_eq!(client.command(&["DEL", "b", "c", "d"]).int(), 2);
    assert_eq!(client.command(&["GET", "b"]), Reply::nil());
    assert_eq!(client.command(&["SET", "b", "1", "EX", "5"]).error(), "ERR this source takes SET without options");
    assert!(client.command(&["SET", "b", ""]).error().ends_with("answered 422 Unprocessable Entity: empty"));
    assert_eq!(client.command(&["MSET", "b"]).error(), "ERR wrong number of arguments for 'mset' command");
    let said = client.command(&["INCR", "b"]);
    assert_eq!(said.error(), "ERR this source takes no commands but GET, MGET, SET, MSET and DEL");
    // In one pipeline, in order.
    for command in [&["SET", "p", "1"][..], &["GET", "p"], &["SET", "p", "2"], &["GET", "p"], &["DEL", "p"]] {
        client.send(command).unwrap();
    }
    let replies: Vec<Reply> = (0..5).map(|_| client.read().unwrap()).collect();
    assert_eq!(replies[..4], [Reply::ok(), Reply::bulk("1"), Reply::ok(), Reply::bulk("2")]);
    assert_eq!(replies[4].int(), 1);
}
