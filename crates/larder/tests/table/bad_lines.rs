//! Lines that `larder table build` and `larder store load` cannot use: named, counted, and an error
//! with `--strict`.
use super::{Place, done, error, table};
use crate::larder::binary;
use std::process::{Command, Output, Stdio};

fn store(args: &[&str]) -> Output {
    Command::new(binary()).arg("store").args(args).env_clear().stdin(Stdio::null()).output().unwrap()
}

/// File name, content, the bad lines, the entries that are left.
const CASES: [(&str, &str, &[u64], u64); 11] = [
    ("open.csv", "key,value\na,1\nb,\"2\nc,3\nd,4\n", &[3], 3),
    ("more.csv", "key,value\na,1,x\nb,2\n", &[2], 1),
    ("fewer.csv", "key,value,note\na,1\nb,2,x\n", &[2], 1),
    ("behind.csv", "key,value\na,\"1\"x\nb,2\n", &[2], 1),
    ("inside.csv", "key,value\na,1\"x\nb,2\n", &[2], 1),
    ("cut.csv", "key,value\na,1\nb,\"2", &[3], 1),
    ("more.tsv", "key\tvalue\na\t1\tx\nb\t2\n", &[2], 1),
    ("array.json", "[\n{\"key\":\"a\",\"value\":1},\n{\"key\":\"b\",\"value\":2}\n]\n", &[1, 2, 3, 4], 0),
    ("one.json", "[{\"key\":\"a\",\"value\":1}]\n", &[1], 0),
    ("cut.jsonl", "{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"val", &[2], 1),
    ("lonely.txt", "a 1\nb\n", &[2], 1),
];

#[test]
fn they_are_named_counted_and_strict_ends_at_the_first() {
    let place = Place::new();
    let (ltab, dir) = (place.name("out.ltab"), place.name("store"));
    for (name, text, bad, entries) in CASES {
        let data = place.write(name, text);
        let build = ["build", &data, "-o", &ltab];
        let load = ["load", &data, &dir];
        for (command, arguments, failure) in [(table as fn(&[&str]) -> Output, &build[..], 3), (store, &load[..], 1)] {
            let output = command(&[arguments, &["--json"]].concat());
            let counts: serde_json::Value = serde_json::from_str(done(&output)).unwrap();
            assert_eq!((&counts["left_out"], &counts["entries"]), (&bad.len().into(), &entries.into()), "{name}");
            let said = error(&output).1;
            let lines: Vec<_> = bad.iter().map(|line| format!("{name}: line {line} is left out: ")).collect();
            assert!(lines.iter().all(|line| said.contains(line)) && said.lines().count() >= lines.len(), "{said}");
            let (code, said) = error(&command(&[arguments, &["--strict"]].concat()));
            assert!(code == failure && said.contains(&format!("{name}: line {}: ", bad[0])), "{code} {said}");
        }
    }
}
