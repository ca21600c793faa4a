//! The public suite http-cache-tests (cache-tests.fyi) against Larder in front of its origin.
use super::larder::Larder;
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

/// Required cases in which Larder differs, and why.
const DIFFERENCES: [(&str, &str); 16] = [
    // Later editions of the suite, and RFC 9111 section 5.1, say what Larder does: the first number counts, and
    // what is not a number is ignored.
    ("age-parse-dup-0", "the first Age counts"),
    ("age-parse-dup-0-twoline", "the first Age counts"),
    ("age-parse-dup-old", "the first Age counts"),
    ("age-parse-prefix-twoline", "the first Age counts"),
    ("age-parse-float", "no number"),
    ("age-parse-negative", "no number"),
    ("age-parse-nonnumeric", "no number"),
    ("age-parse-numeric-parameter", "no number"),
    ("age-parse-parameter", "no number"),
    // Those who waited got one answer, which none of them may keep.
    ("cc-resp-private-shared", "sent as no-store"),
    ("cc-resp-no-store-case-insensitive", "sent as no-store"),
    ("cc-resp-no-store-fresh", "sent as no-store"),
    ("conditional-etag-vary-headers", "the origin gets no fields of clients"),
    // The adapter keeps the fields that Larder does not.
    ("304-etag-update-response-Content-MD5", "no field of Larder's"),
    ("304-etag-update-response-Content-Range", "no field of Larder's"),
    ("304-etag-update-response-ETag", "a 304 with another tag is asked again, whole"),
];

#[test]
#[ignore = "make test-clients"]
fn the_required_cases_of_the_public_suite_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/http-cache");
    assert!(folder.exists(), "the suite is not installed. Type: tests/install_tools");
    let mut node = Command::new("node")
        .args(["--no-warnings", "suite.mjs"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(node.stdout.take().unwrap()).lines().map(Result::unwrap);
    let origin = lines.next().expect("the origin's port");
    let source = format!("http://127.0.0.1:{origin}/{{key}}");
    // Nothing but what the headers say may decide, however slow the origin is here.
    let slow = ["--source-timeout", "30s", "--soft-timeout", "off"];
    let all_at_once = ["--source-max-in-flight", "fixed:4096", "--source-breaker", "off"];
    let larder = Larder::start(&[&["--source", &*source][..], &slow, &all_at_once].concat());
    writeln!(node.stdin.as_mut().unwrap(), "{}", larder.http).unwrap();
    let results: Vec<String> = lines.collect();
    assert!(node.wait().unwrap().success());
    let required: Vec<&str> = results.iter().filter_map(|line| line.strip_prefix("required ")).collect();
    assert!(required.len() >= 75, "{results:#?}");
    let failed: Vec<&str> = required.into_iter().filter(|line| !line.ends_with(" passes")).collect();
    let names: BTreeSet<&str> = failed.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, DIFFERENCES.iter().map(|(name, _)| *name).collect(), "{failed:#?}");
}
