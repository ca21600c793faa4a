//! What is kept of an HTTP origin's answers besides the value, and how copies are renewed.
use super::{
    Fixture, LIMITS, Port, certificates,
    http_origin::{Nginx, refused},
    open, run,
    scripted_origin::{Asked, ScriptedOrigin, Step, answer},
    some,
};
use larder_config::{OriginOptions, OriginUrl, SourceUrl};
use larder_source::{CopyMetadata, CopyMetadataView, FillPolicy, KeyPolicy};
use larder_store::clock;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

fn origin(script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static) -> (Fixture, ScriptedOrigin) {
    let origin = ScriptedOrigin::start(script);
    let url = format!("http://127.0.0.1:{}/v/{{key}}", origin.port).parse().expect("a URL");
    (open(&url, LIMITS, policy()), origin)
}
/// Copies are kept past their freshness.
fn policy() -> FillPolicy {
    FillPolicy::from(KeyPolicy { stale_if_error: 60_000, ..KeyPolicy::default() })
}
/// What the tier keeps with the copy.
fn kept(group: &Fixture, key: &str) -> CopyMetadata {
    let view = |entry: larder_engine::Entry<'_>| CopyMetadataView::read(entry.metadata()).to_owned();
    group.cache.tier().peek(group.cache.key(key.as_bytes()), clock::now(), view).expect("a copy")
}
fn has(asked: &Asked, field: &str) -> bool {
    asked.head.contains(&format!("\r\n{field}\r\n"))
}

#[test]
fn a_copy_that_has_not_changed_is_renewed_without_its_value() {
    run(async {
        let (group, origin) = origin(|asked| match &asked.target[3..] {
            "tagged" if has(asked, "if-none-match: \"v1\"") => {
                answer_304("etag: \"v1\"\r\ncache-control: max-age=100\r\n")
            }
            "tagged" => {
                answer("200 OK", "etag: \"v1\"\r\ncache-control: no-cache\r\ncontent-type: text/css\r\n", "one")
            }
            "changes" if has(asked, "if-none-match: w/\"1\"") => {
                answer("200 OK", "etag: \"2\"\r\ncache-control: max-age=100\r\n", "two")
            }
            "changes" => answer("200 OK", "etag: W/\"1\"\r\ncache-control: max-age=0\r\n", "one"),
            "dated" if has(asked, "if-modified-since: sun, 06 nov 1994 08:49:37 gmt") => answer_304(""),
            "dated" => answer(
                "200 OK",
                "last-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\ncache-control: max-age=0, must-revalidate\r\n",
                "old",
            ),
            "gone" if asked.head.contains("if-none-match") => answer("404 Not Found", "", ""),
            "gone" => answer("200 OK", "etag: \"1\"\r\ncache-control: no-cache\r\n", "there"),
            _ => answer_304(""),
        });
        for (key, first, second, renewed) in [
            ("tagged", some("one"), some("one"), true),
            ("changes", some("one"), some("two"), true),
            // The 304 says nothing new of the lifetime, which is 0.
            ("dated", some("old"), some("old"), false),
            ("gone", some("there"), Ok(None), false),
        ] {
            let before = origin.asked();
            assert_eq!(group.get(key).await, first, "{key}");
            assert_eq!(group.get(key).await, second, "{key}");
            assert_eq!(origin.asked(), before + 2, "{key}: what is stale is asked for");
            if renewed {
                assert_eq!(group.get(key).await, second, "{key}");
                assert_eq!(origin.asked(), before + 2, "{key}: the answer began a new life");
            }
        }
        let copy = kept(&group, "tagged");
        assert_eq!(copy.content_type.as_deref(), Some(&b"text/css"[..]), "the 304 did not say it again");
        assert_eq!(copy.etag.as_deref(), Some(&b"\"v1\""[..]));
        let said = refused(group.get("unasked").await);
        assert!(said.contains("answered 304 Not Modified, though it was not asked whether"), "{said}");
    });
}
#[test]
fn what_a_304_does_not_say_stays_as_it_was() {
    run(async {
        let (group, origin) = origin(|asked| match &asked.target[3..] {
            "lifetime" if has(asked, "if-none-match: \"1\"") => answer_304("etag: \"1\"\r\n"),
            "lifetime" => {
                answer("200 OK", "etag: \"1\"\r\ncache-control: max-age=60, must-revalidate\r\nage: 60\r\n", "v")
            }
            "older" if has(asked, "if-none-match: \"1\"") => answer_304("age: 50\r\n"),
            "older" => answer("200 OK", "etag: \"1\"\r\ncache-control: max-age=60\r\nage: 60\r\n", "v"),
            "cdn" if has(asked, "if-none-match: \"1\"") => answer_304(""),
            "cdn" => answer(
                "200 OK",
                "etag: \"1\"\r\ncdn-cache-control: max-age=60\r\ncache-control: no-store\r\nage: 60\r\n",
                "v",
            ),
            "expires" if asked.head.contains("if-modified-since") => {
                answer_304("date: Sun, 06 Nov 1994 08:49:38 GMT\r\n")
            }
            "expires" => answer(
                "200 OK",
                "last-modified: Sun, 06 Nov 1994 08:49:00 GMT\r\ndate: Sun, 06 Nov 1994 08:50:38 GMT\r\n\
                expires: Sun, 06 Nov 1994 08:50:38 GMT\r\n",
                "v",
            ),
            _ if has(asked, "if-none-match: \"1\"") => answer_304("cache-control: max-age=5\r\n"),
            _ => answer("200 OK", "etag: \"1\"\r\ncache-control: no-cache\r\n", "v"),
        });
        for (key, seconds, stale_if_error) in [
            ("lifetime", 60, Some(0)),
            ("older", 10, None),
            ("cdn", 60, None),
            ("expires", 60, None),
            ("replaced", 5, None),
        ] {
            assert_eq!(group.get(key).await, some("v"), "{key}");
            let begun = clock::now();
            assert_eq!(group.get(key).await, some("v"), "{key}");
            let left = group.expiry(key).expect("a lifetime") - begun;
            let most = seconds * 1000 + (clock::now() - begun);
            assert!((seconds * 1000..=most).contains(&left), "{key}: {left}");
            let copy = kept(&group, key);
            assert_eq!(copy.stale_if_error, stale_if_error, "{key}");
            assert!(copy.etag.is_some() || copy.last_modified.is_some(), "{key} can be asked about again");
        }
        assert_eq!(origin.asked(), 10);
    });
}

#[test]
fn a_304_about_another_value_does_not_renew_the_copy() {
    run(async {
        let (group, origin) = origin(|asked| match &asked.target[3..] {
            "tag" if has(asked, "if-none-match: \"1\"") => answer_304("etag: \"2\"\r\ncache-control: max-age=60\r\n"),
            "tag" if asked.request == 0 => answer("200 OK", "etag: \"1\"\r\ncache-control: max-age=0\r\n", "one"),
            "tag" => answer("200 OK", "etag: \"2\"\r\ncache-control: max-age=60\r\n", "two"),
            "date" if has(asked, "if-modified-since: sun, 06 nov 1994 08:49:37 gmt") => {
                answer_304("last-modified: Sun, 06 Nov 1994 08:49:39 GMT\r\n")
            }
            "date" if asked.request == 3 => {
                answer("200 OK", "last-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\ncache-control: max-age=0\r\n", "one")
            }
            _ => answer("200 OK", "cache-control: max-age=60\r\n", "two"),
        });
        for (key, asked) in [("tag", 3), ("date", 6)] {
            assert_eq!(group.get(key).await, some("one"), "{key}");
            assert_eq!(group.get(key).await, some("two"), "{key}: fetched whole");
            assert_eq!(group.get(key).await, some("two"), "{key}");
            assert_eq!(origin.asked(), asked, "{key}");
        }
    });
}

fn answer_304(headers: &str) -> Vec<Step> {
    vec![Step::Send(format!("HTTP/1.1 304 Not Modified\r\n{headers}\r\n").into())]
}

#[test]
fn what_the_headers_say_is_kept_with_the_copy() {
    run(async {
        let (group, _origin) = origin(|asked| match &asked.target[3..] {
            "all" => answer(
                "200 OK",
                "content-type: application/json\r\netag: \"e\"\r\nlast-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                cache-control: max-age=60, stale-while-revalidate=5, stale-if-error=7\r\n",
                "{}",
            ),
            "strict" => answer("200 OK", "cache-control: max-age=60, must-revalidate\r\n", "s"),
            "plain" => answer("200 OK", "cache-control: max-age=60\r\ncontent-type: application/octet-stream\r\n", "p"),
            _ => answer("200 OK", &format!("cache-control: max-age=60\r\ncache-tag: {}\r\n", "x".repeat(2000)), "t"),
        });
        for key in ["all", "strict", "plain", "too many tags"] {
            group.get(key).await.expect("an answer").expect("a value");
        }
        let all = kept(&group, "all");
        assert_eq!(all.content_type.as_deref(), Some(&b"application/json"[..]));
        assert_eq!(all.etag.as_deref(), Some(&b"\"e\""[..]));
        assert_eq!(all.last_modified.as_deref(), Some(&b"Sun, 06 Nov 1994 08:49:37 GMT"[..]));
        assert_eq!((all.stale_while_revalidate, all.stale_if_error), (Some(5000), Some(7000)));
        let strict = kept(&group, "strict");
        assert_eq!((strict.stale_while_revalidate, strict.stale_if_error), (Some(0), Some(0)));
        assert_eq!(kept(&group, "plain").content_type, None, "bytes are bytes anyway");
        assert!(group.cached("too many tags").is_none(), "a clear by its tag would miss it");
    });
}

#[test]
fn an_absence_lives_as_long_as_the_origin_says() {
    run(async {
        let (group, origin) = origin(|asked| match &asked.target[3..] {
            "long" => answer("404 Not Found", "cache-control: max-age=100\r\n", ""),
            "gone" => answer("410 Gone", "expires: Sat, 06 Nov 2094 08:49:37 GMT\r\n", ""),
            _ => answer("404 Not Found", "cache-control: no-store\r\n", ""),
        });
        for (key, requests) in [("long", 1), ("gone", 1), ("not-kept", 3)] {
            let before = origin.asked();
            for _ in 0..3 {
                assert_eq!(group.get(key).await, Ok(None), "{key}");
            }
            assert_eq!(origin.asked() - before, requests, "{key}");
        }
    });
}

#[test]
fn an_answer_may_vary_with_what_is_listed() {
    run(async {
        let origin =
            ScriptedOrigin::start(|_| answer("200 OK", "cache-control: max-age=60\r\nvary: Accept, X-Tenant\r\n", "v"));
        for (vary, requests) in [(&["accept", "x-tenant"][..], 1), (&["accept"], 2)] {
            let Ok(SourceUrl::Http(url)) = format!("http://127.0.0.1:{}/v/{{key}}", origin.port).parse() else {
                panic!()
            };
            let vary = vary.iter().map(|name| (*name).to_owned()).collect();
            let options = OriginOptions { vary, ..OriginOptions::default() };
            let group = open(&SourceUrl::Http(OriginUrl { options, ..url }), LIMITS, FillPolicy::default());
            let before = origin.asked();
            for _ in 0..2 {
                assert_eq!(group.get("k").await, some("v"));
            }
            assert_eq!(origin.asked() - before, requests);
        }
    });
}

#[test]
fn nginx_says_whether_a_file_has_changed() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = dir.path().join("files");
    fs::create_dir_all(&files).expect("a directory");
    fs::write(files.join("k"), "first").expect("a file");
    let _unused = certificates(dir.path());
    let held = Port::free();
    let _nginx = Nginx::start(dir.path(), held.number, None);
    let url: SourceUrl = format!("http://127.0.0.1:{}/v/no-cache/{{key}}", held.number).parse().expect("a URL");
    run(async {
        let group = open(&url, LIMITS, policy());
        for _ in 0..3 {
            assert_eq!(group.get("k").await, some("first"));
        }
        fs::write(files.join("k"), "the second").expect("a file");
        assert!(fs::metadata(files.join("k")).expect("a file").size() == 10);
        assert_eq!(group.get("k").await, some("the second"));
        // nginx writes a line after it has sent the answer.
        let written = Instant::now() + Duration::from_secs(10);
        let log = loop {
            let log = fs::read_to_string(dir.path().join("access.log")).expect("a log");
            if log.lines().count() >= 4 || Instant::now() > written {
                break log;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let statuses: Vec<&str> = log.lines().collect();
        assert_eq!(statuses, ["200", "304", "304", "200"]);
    });
}
