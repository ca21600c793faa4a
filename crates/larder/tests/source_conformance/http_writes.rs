//! Writes that go through to an HTTP origin, the header fields that it is sent, and certificates
//! that it asks for.
use super::{
    Certificates, Fixture, LIMITS, Port, certificates,
    http_origin::{Nginx, refused},
    open, run,
    scripted_origin::{Asked, ScriptedOrigin, Step, answer},
    some,
};
use larder_base::buffers::Buffers;
use larder_config::{OriginOptions, OriginUrl, SentHeader, SentValue, SourceUrl};
use larder_engine::Stored;
use larder_source::{FillPolicy, SourceError, SourceLimits, SourceSetup};
use larder_store::clock;
use std::{
    collections::HashMap,
    fs,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

fn with(url: &str, options: OriginOptions) -> SourceUrl {
    let Ok(SourceUrl::Http(url)) = url.parse() else { panic!("{url}") };
    SourceUrl::Http(OriginUrl { options, ..url })
}
fn writable(
    limits: SourceLimits,
    script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static,
) -> (Fixture, ScriptedOrigin) {
    let origin = ScriptedOrigin::start(script);
    let options = OriginOptions { takes_writes: true, ..OriginOptions::default() };
    let url = with(&format!("http://127.0.0.1:{}/v/{{key}}", origin.port), options);
    (open(&url, limits, FillPolicy::default()), origin)
}

#[test]
fn a_write_goes_through_and_the_copy_is_forgotten() {
    run(async {
        let values = Mutex::new(HashMap::<String, Vec<u8>>::new());
        let (group, origin) = writable(LIMITS, move |asked| {
            let mut values = values.lock().expect("no panic");
            match asked.head.split(' ').next().expect("a method") {
                // The origin changes what it is given.
                "PUT" => match values.insert(asked.target.clone(), asked.body.to_ascii_uppercase()) {
                    None => answer("201 Created", "", "made"),
                    Some(_) => answer("204 No Content", "", ""),
                },
                "DELETE" => match values.remove(&asked.target) {
                    None => answer("404 Not Found", "", "no such key"),
                    Some(_) => answer("200 OK", "", "deleted"),
                },
                _ => match values.get(&asked.target) {
                    None => answer("404 Not Found", "cache-control: max-age=60\r\n", ""),
                    Some(value) => answer("200 OK", "cache-control: max-age=60\r\n", value),
                },
            }
        });
        assert_eq!(group.get("a/b").await, Ok(None));
        assert_eq!(group.put(b"a/b", "value".into(), None).await, Ok(Stored::Created(0)));
        assert_eq!(
            group.get("a/b").await,
            some("VALUE"),
            "the absence is forgotten, and the written bytes are not kept"
        );
        assert_eq!(group.put(b"a/b", "".into(), None).await, Ok(Stored::Replaced(0)));
        assert_eq!(group.get("a/b").await, some(""));
        let large = vec![b'x'; 3 << 20];
        assert_eq!(group.put(b"a/b", large.into(), None).await, Ok(Stored::Replaced(0)));
        assert_eq!(group.get("a/b").await, some(vec![b'X'; 3 << 20]));
        assert_eq!(group.delete(b"a/b").await, Ok(true));
        assert_eq!(group.delete(b"a/b").await, Ok(false));
        assert_eq!(group.get("a/b").await, Ok(None));
        let heads = origin.requests.lock().expect("no panic").join("");
        assert!(
            heads.contains("PUT /v/a%2Fb HTTP/1.1\r\n") && heads.contains("DELETE /v/a%2Fb HTTP/1.1\r\n"),
            "{heads}"
        );
        assert!(
            heads.contains("content-type: application/octet-stream\r\n") && heads.contains("content-length: 0\r\n")
        );
        let asked = origin.asked();
        for refused in [
            group.put(b"k", "v".into(), Some(clock::now() + 1000)).await.map(|_| ()),
            group.expire(b"k", None).await.map(|_| ()),
        ] {
            assert!(matches!(&refused, Err(SourceError::Refused(text)) if text.contains("lifetime")), "{refused:?}");
        }
        assert_eq!(origin.asked(), asked);
    });
}

#[test]
fn what_becomes_of_a_write_is_said_as_it_is() {
    let limits = SourceLimits { timeout: Duration::from_secs(2), ..LIMITS };
    let tries = std::sync::Arc::new(AtomicUsize::new(0));
    let seen = tries.clone();
    run(async move {
        let (group, origin) = writable(limits, move |asked| match (&asked.head[..3], &asked.target[3..]) {
            ("GET", _) => answer("200 OK", "cache-control: max-age=60\r\n", "copy"),
            (_, "bad") => answer("422 Unprocessable Entity", "", "{\"error\":\r\n \"no such field\"}"),
            (_, "moved") => answer("308 Permanent Redirect", "location: /w\r\n", ""),
            (_, "busy") => answer("503 Service Unavailable", "", "later"),
            (_, "broken") => answer("500 Internal Server Error", "", "oops"),
            (_, "silent") => vec![Step::Stall],
            (_, "closes") => {
                seen.fetch_add(1, Relaxed);
                vec![Step::Close]
            }
            _ => panic!("{}", asked.head),
        });
        let name = format!("http://127.0.0.1:{}", origin.port);
        for (key, kept, expected) in [
            (
                "bad",
                true,
                SourceError::Refused(
                    format!("ERR {name}: answered 422 Unprocessable Entity: {{\"error\": \"no such field\"}}").into(),
                ),
            ),
            ("moved", true, SourceError::Refused(format!("ERR {name}: answered 308 Permanent Redirect").into())),
            ("busy", true, SourceError::Unavailable(format!("{name}: answered 503 Service Unavailable: later").into())),
            ("broken", false, SourceError::Lost(format!("{name}: answered 500 Internal Server Error: oops").into())),
            ("silent", false, SourceError::Lost(format!("{name}: timed out after 2s (source-timeout)").into())),
        ] {
            assert_eq!(group.get(key).await, some("copy"));
            let put = group.put(key.as_bytes(), "v".into(), None).await;
            assert_eq!(put, Err(expected.clone()), "{key}");
            assert_eq!(group.cached(key).is_some(), kept, "{key}: a write that may have been made ends the copy");
            group.get(key).await.expect("an answer");
            assert_eq!(group.delete(key.as_bytes()).await, Err(expected), "{key}");
        }
        // On an idle connection, and on a new one.
        for _ in 0..2 {
            let put = group.put(b"closes", "v".into(), None).await;
            assert!(matches!(put, Err(SourceError::Lost(_))), "{put:?}");
        }
        assert_eq!(tries.load(Relaxed), 2, "what was sent is not sent again");
    });
    run(async {
        let held = Port::free();
        let options = OriginOptions { takes_writes: true, ..OriginOptions::default() };
        let url = with(&format!("http://127.0.0.1:{}/v/{{key}}", held.number), options);
        let put = open(&url, LIMITS, FillPolicy::default()).put(b"k", "v".into(), None).await;
        assert!(matches!(put, Err(SourceError::Unavailable(_))), "nothing was sent: {put:?}");
    });
}

fn header(name: &str, value: SentValue) -> OriginOptions {
    OriginOptions { headers: vec![SentHeader { name: name.into(), value }], ..OriginOptions::default() }
}

#[test]
fn nginx_with_a_key_a_client_certificate_and_writes() {
    let dir = tempfile::tempdir().expect("a directory");
    for folder in ["files", "written"] {
        fs::create_dir_all(dir.path().join(folder)).expect("a directory");
    }
    fs::write(dir.path().join("files/k"), "value").expect("a file");
    fs::write(dir.path().join("api-key"), "hunter2\n").expect("a file");
    let made = certificates(dir.path());
    for http2 in [false, true] {
        with_a_key_a_client_certificate_and_writes(dir.path(), &made, http2);
    }
}
fn with_a_key_a_client_certificate_and_writes(dir: &Path, made: &Certificates, http2: bool) {
    let held = Port::free();
    let _nginx = match http2 {
        false => Nginx::start(dir, held.number, Some(made)),
        true => Nginx::with_http2(dir, held.number, made, ""),
    };
    let (ca, cert, key) = (made.ca.display(), made.cert.display(), made.key.display());
    let url = |path: &str, client: bool, options| {
        let client = if client { format!("&cert={cert}&key={key}") } else { String::new() };
        with(&format!("https://127.0.0.1:{}/{path}/{{key}}#ca={ca}{client}", held.number), options)
    };
    run(async {
        let reads = async |url: SourceUrl| open(&url, LIMITS, FillPolicy::default()).get("k").await;
        assert_eq!(reads(url("v/guarded", true, OriginOptions::default())).await, some("value"));
        let said = refused(reads(url("v/guarded", false, OriginOptions::default())).await);
        assert!(said.ends_with("answered 403 Forbidden"), "{said}");

        let file = header("x-api-key", SentValue::File(dir.join("api-key")));
        assert_eq!(reads(url("v/secret", false, file)).await, some("value"));
        let text = header("x-api-key", SentValue::Text("hunter2".into()));
        assert_eq!(reads(url("v/secret", false, text)).await, some("value"));
        let said = refused(reads(url("v/secret", false, OriginOptions::default())).await);
        assert!(said.ends_with("answered 401 Unauthorized"), "{said}");
        let missing = url("v/secret", false, header("x-api-key", SentValue::File("/nowhere/key".into())));
        let error = SourceSetup::new(&missing, LIMITS, &Buffers::unbounded()).err().expect("no file");
        assert!(error.starts_with("source-headers: x-api-key: /nowhere/key: "), "{error}");

        let options = OriginOptions { takes_writes: true, ..OriginOptions::default() };
        let group = open(&url("w", false, options), LIMITS, FillPolicy::default());
        assert_eq!(group.put(b"new", "first".into(), None).await, Ok(Stored::Created(0)));
        assert_eq!(group.put(b"new", "second".into(), None).await, Ok(Stored::Replaced(0)));
        assert_eq!(fs::read(dir.join("written/new")).expect("a file"), b"second");
        assert_eq!(group.get("new").await, some("second"));
        assert_eq!((group.delete(b"new").await, group.delete(b"new").await), (Ok(true), Ok(false)));
        assert_eq!(group.get("new").await, Ok(None));
        let busy = group.put(b"..", "v".into(), None).await;
        assert!(matches!(busy, Err(SourceError::Refused(_))), "{busy:?}");
    });
}
