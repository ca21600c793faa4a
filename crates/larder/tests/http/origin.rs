//! What an HTTP source says about a value is given back, and writes go through to it.
use super::common::Reply;
use super::{
    curl, curl_with,
    larder::Larder,
    scripted_origin::{ScriptedOrigin, answer},
};
use flate2::{Compression, write::GzEncoder};
use std::{collections::HashMap, io::Write, sync::Mutex};

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
        assert_eq!(found.header("cache-control"), Some("max-age=60"), "with `Age`, not less it: {}", found.headers);
    }
    for (condition, status) in [
        ("If-None-Match: \"v1\"", 304),
        ("If-None-Match: \"v0\", W/\"v1\"", 304),
        ("If-None-Match: \"v2\"", 200),
        ("If-None-Match: v1", 304),
        ("If-None-Match: W/v1", 304),
        ("If-None-Match: v0, v1", 304),
        ("If-None-Match: v2", 200),
        ("If-None-Match: \"v1", 400),
        ("If-Match: v1", 412),
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

/// Clients and caches behind Larder would keep it for the rest of the lifetime that the origin gave.
#[test]
fn a_copy_that_was_cleared_softly_is_fresh_to_nobody() {
    let origin =
        ScriptedOrigin::start(|_| answer("200 OK", "cache-control: max-age=600, stale-while-revalidate=60\r\n", "v"));
    let source = format!("http://127.0.0.1:{}/{{key}}", origin.port);
    let larder = Larder::start(&["--source", &source]);
    let url = |path: &str| format!("http://127.0.0.1:{}/v1/{path}", larder.http);
    // A key for each path of a request: the first read after the clear has the copy fetched again.
    let reads = [("kv/fast", &[][..]), ("kv/general", &["-H", "Range: bytes=0-0"])];
    for (path, _) in reads {
        assert_eq!(curl(&[&url(path)]).header("cache-control"), Some("max-age=600, stale-while-revalidate=60"));
    }
    assert_eq!(curl(&["-X", "DELETE", &url("groups/default?soft")]).status, 204);
    for (path, more) in reads {
        let found = curl(&[&[&*url(path)], more].concat());
        assert!(found.header("cache-status").is_some_and(|status| status.contains("stale")), "{}", found.headers);
        assert_eq!(found.header("cache-control"), Some("max-age=0, stale-while-revalidate=60"), "{path}");
    }
}

#[test]
fn what_the_origin_says_about_lifetimes_is_sent_on() {
    let origin = ScriptedOrigin::start(|asked| match &asked.target[1..] {
        "aged" => answer("200 OK", "cache-control: max-age=600\r\nage: 100\r\n", "v"),
        "expires" => answer(
            "200 OK",
            "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nexpires: Sun, 06 Nov 1994 08:59:37 GMT\r\nage: 100\r\n",
            "v",
        ),
        "shared" => answer("200 OK", "cache-control: s-maxage=600, max-age=5, must-revalidate\r\n", "v"),
        "shared-only" => answer("200 OK", "cache-control: public,s-maxage=600\r\n", "v"),
        "bounded" => answer("200 OK", "cache-control: max-age=90000, s-maxage=80000\r\nage: 100\r\n", "v"),
        "no-cache" => answer("200 OK", "cache-control: no-cache\r\netag: \"1\"\r\n", "v"),
        "no-cache-not-kept" => answer("200 OK", "cache-control: no-cache=\"a, b\", max-age=60\r\n", "v"),
        "silent" => answer("200 OK", "", "v"),
        "must" => answer("200 OK", "cache-control: must-revalidate\r\n", "v"),
        "over" => answer("200 OK", "cache-control: max-age=0\r\n", "v"),
        _ => answer("200 OK", "cache-control: private, max-age=60\r\n", "v"),
    });
    let source = format!("http://127.0.0.1:{}/{{key}}", origin.port);
    let larder = Larder::start(&["--source", &source, "--ttl", "1000s"]);
    let url = |key: &str| format!("http://127.0.0.1:{}/v1/kv/{key}", larder.http);
    for (key, cache_control, least_age) in [
        ("aged", "max-age=600", Some(100)),
        ("expires", "max-age=600", Some(100)),
        ("shared", "s-maxage=600, max-age=5, must-revalidate", Some(0)),
        ("shared-only", "public, s-maxage=600", Some(0)),
        // The group keeps it for 1,000 s after its 100.
        ("bounded", "max-age=1100, s-maxage=1100", Some(100)),
        ("no-cache", "no-cache", Some(0)),
        ("no-cache-not-kept", "no-cache=\"a, b\", max-age=60", None),
        ("over", "max-age=0", Some(0)),
        ("private", "no-store", None),
    ] {
        // Fetched, from memory on both paths, and without the body.
        for more in [&[][..], &[], &["-H", "Range: bytes=0-0"], &["--head"], &["-H", "If-None-Match: *"]] {
            let found = curl(&[&[&*url(key)], more].concat());
            assert_eq!(found.header("cache-control"), Some(cache_control), "{key} {more:?} {}", found.headers);
            let age = found.header("age").map(|age| age.parse::<u64>().expect("seconds"));
            let is_right = |least: u64| age.is_some_and(|age| (least..least + 60).contains(&age));
            assert!(least_age.map_or(age.is_none(), is_right), "{key} {more:?} {}", found.headers);
            let status = found.header("cache-status").unwrap_or_default();
            assert!(!status.contains("stale"), "{key}: the origin has just given it: {status}");
        }
    }
    let dated = curl(&[&url("expires")]);
    assert_eq!(dated.header("date"), Some("Sun, 06 Nov 1994 08:49:37 GMT"), "the origin's: {}", dated.headers);
    assert_eq!(dated.headers.to_lowercase().matches("\ndate:").count(), 1);
    // What the origin does not say, the group's `ttl` does: what is left, and the age.
    for (key, before) in [("silent", ""), ("must", "must-revalidate, ")] {
        for more in [&[][..], &[], &["--head"]] {
            let found = curl(&[&[&*url(key)], more].concat());
            let number = |text: &str| text.parse::<u64>().expect("seconds");
            let said = found.header("cache-control").and_then(|text| text.strip_prefix(before)).expect("a lifetime");
            let lifetime = number(said.strip_prefix("max-age=").expect("a lifetime"));
            assert!((999..=1000).contains(&lifetime), "{key} {more:?} {}", found.headers);
        }
    }
}

#[test]
fn encoded_values_pass_through_to_clients_that_accept_them() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"plain").expect("memory");
    let encoded = encoder.finish().expect("memory");
    let gzip = encoded.clone();
    let origin = ScriptedOrigin::start(move |asked| match &asked.target[1..] {
        "unknown" => answer("200 OK", "content-encoding: br\r\ncache-control: max-age=60\r\n", "coded"),
        "identity" => answer("200 OK", "content-encoding: identity\r\ncache-control: max-age=60\r\n", "plain"),
        _ => answer(
            "200 OK",
            "content-type: text/css\r\ncontent-encoding: gzip\r\nvary: Accept-Encoding\r\netag: \"z\"\r\n\
            cache-control: max-age=60\r\n",
            &gzip,
        ),
    });
    let source = format!("http://127.0.0.1:{}/{{key}}", origin.port);
    let larder = Larder::start(&["--source", &source, "--ttl", "1h"]);
    let get =
        |path: &str, more: &[&str]| curl(&[&[&*format!("http://127.0.0.1:{}{path}", larder.http)], more].concat());
    // On the fast path, on the general one, and over HTTP/2.
    for path in [&[][..], &["-H", "Range: bytes=0-0"], &["--http2-prior-knowledge"]] {
        for accept in ["Accept-Encoding: gzip", "Accept-Encoding: br;q=0.5, GZIP;q=0.1", "Accept-Encoding: *"] {
            let found = get("/v1/kv/css", &[&["-H", accept], path].concat());
            assert_eq!((found.status, found.header("content-encoding")), (200, Some("gzip")), "{}", found.headers);
            assert_eq!((found.header("vary"), found.header("etag")), (Some("accept-encoding"), Some("\"z\"")));
            assert_eq!(found.header("cache-control"), Some("max-age=60"));
            assert!(found.body == encoded, "{accept} {path:?}");
        }
        for accept in ["Accept-Encoding: identity", "Accept-Encoding:", "Accept-Encoding: gzip;q=0, br"] {
            let found = get("/v1/kv/css", &[&["-H", accept], path].concat());
            assert_eq!((found.status, found.header("content-encoding"), found.text()), (200, None, "plain"));
            assert_eq!((found.header("vary"), found.header("etag")), (Some("accept-encoding"), Some("W/\"z\"")));
        }
        let refused = get("/v1/kv/unknown", &[&["-H", "Accept-Encoding: gzip"], path].concat());
        assert_eq!(refused.status, 502);
        assert!(refused.text().contains("is encoded as `br`, which the client does not accept"), "{}", refused.text());
        let accepted = get("/v1/kv/unknown", &[&["-H", "Accept-Encoding: gzip, br"], path].concat());
        assert_eq!((accepted.header("content-encoding"), accepted.text()), (Some("br"), "coded"));
        let same = get("/v1/kv/css", &[&["-H", "Accept-Encoding: gzip", "-H", "If-None-Match: \"z\""], path].concat());
        assert_eq!((same.status, same.header("vary")), (304, Some("accept-encoding")));
    }
    for path in ["/?key=css", "/data/css", "/v0/entity?id=css"] {
        assert!(get(path, &["-H", "Accept-Encoding: gzip"]).body == encoded, "{path}");
        assert_eq!(get(path, &[]).text(), "plain", "{path}");
    }
    // Where the value is part of something else, no bytes are taken for it.
    assert_eq!(get("/lookup?key=css", &["-H", "Accept-Encoding: gzip"]).status, 502);
    let mut client = larder.client();
    for _ in 0..2 {
        let said = client.command(&["GET", "css"]);
        assert!(said.error().contains("(Content-Encoding)"), "{}", said.error());
    }
    assert_eq!(client.command(&["GET", "identity"]), Reply::bulk("plain"));
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
    assert_eq!(said.error(), "ERR this source takes only commands that read keys, SET, MSET and DEL");
    // In one pipeline, in order.
    for command in [&["SET", "p", "1"][..], &["GET", "p"], &["SET", "p", "2"], &["GET", "p"], &["DEL", "p"]] {
        client.send(command).unwrap();
    }
    let replies: Vec<Reply> = (0..5).map(|_| client.read().unwrap()).collect();
    assert_eq!(replies[..4], [Reply::ok(), Reply::bulk("1"), Reply::ok(), Reply::bulk("2")]);
    assert_eq!(replies[4].int(), 1);
}
