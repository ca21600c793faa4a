//! What a build takes of text, CSV and JSON, and what it says of the other lines.
use super::*;

#[test]
fn text_is_split_at_the_first_blanks() {
    let place = Place::new();
    let text = "a one two\nb \t three \r\n\nc \nlonely\n leading\na again\n";
    let (built, entries) = place.build(&place.options("x.data", text)).unwrap();
    assert_eq!(entries, model(&[("a", "again"), ("b", "three "), ("c", "")]));
    assert_eq!((built.entries, built.replaced, built.bad.count), (3, 1, 2));
    let described = [(5, "there is no blank behind the key".to_string()), (6, "it has no key".to_string())];
    assert_eq!(built.bad.described, described);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_key() {
    let place = Place::new();
    for (name, text) in [
        ("x.data", "\u{feff}a 1\r\nb 2\r\n"),
        ("x.jsonl", "\u{feff}{\"key\":\"a\",\"value\":1}\r\n{\"key\":\"b\",\"value\":2}\r\n"),
        ("x.csv", "\u{feff}key,value\r\na,1\r\nb,2\r\n"),
        ("x.tsv", "\u{feff}key\tvalue\r\na\t1\r\nb\t2\r\n"),
    ] {
        let (built, entries) = place.build(&place.options(name, text)).unwrap();
        assert_eq!((entries, built.bad.count), (model(&[("a", "1"), ("b", "2")]), 0), "{name}");
    }
}

#[test]
fn columns_are_found_by_name() {
    let place = Place::new();
    let csv = "note,key,value\nx,a,\"1, \"\"2\"\"\"\nb\n,c,3\n";
    let (built, entries) = place.build(&place.options("x.csv", csv)).unwrap();
    assert_eq!(entries, model(&[("a", "1, \"2\""), ("c", "3")]));
    assert_eq!(built.bad.described, [(3, "it has 1 columns".to_string())]);
    let mut options = place.options("x.tsv", "id\tname\n7\t\"seven\" of\n");
    let error = build(&options, &mut |_| ()).unwrap_err().to_string();
    assert!(error.ends_with("there is no column `key` among id, name"), "{error}");
    (options.input.key, options.input.value) = ("id".into(), "name".into());
    assert_eq!(place.build(&options).unwrap().1, model(&[("7", "\"seven\" of")]));
}

/// Separators alone are columns, each of which takes more memory than its byte.
#[test]
fn a_row_has_a_limited_number_of_columns() {
    let place = Place::new();
    for (name, separator) in [("x.csv", ","), ("x.tsv", "\t")] {
        let names = format!("key{separator}value{}\n", separator.repeat(1 << 16));
        let error = build(&place.options(name, &names), &mut |_| ()).unwrap_err().to_string();
        assert!(error.ends_with("line 1: it has more than 65536 columns"), "{error}");
        let row = format!("key{separator}value\na{separator}1\n{}\nb{separator}2\n", separator.repeat(1 << 20));
        let (built, entries) = place.build(&place.options(name, &row)).unwrap();
        assert_eq!(entries, model(&[("a", "1"), ("b", "2")]));
        assert_eq!(built.bad.described, [(3, "it has more than 65536 columns".to_string())]);
        let names = (0..100).map(|n| format!("{n}{}", "x".repeat(1000))).collect::<Vec<_>>().join(separator);
        let error = build(&place.options(name, &names), &mut |_| ()).unwrap_err().to_string();
        assert!(error.len() < 4096 && error.ends_with(", …"), "{error}");
    }
}

#[test]
fn json_lines_may_hold_anything() {
    let place = Place::new();
    let json = r#"{"key":"a","value":"\u00e9\n"}
{"value":{"z":1,"a":[true]},"key":"b"}
{"key":7,"value":1.50}
{"key":"gone","value":null}
{"key":"d"}
[1]
"#;
    let (built, entries) = place.build(&place.options("x.jsonl", json)).unwrap();
    assert_eq!(entries, model(&[("a", "é\n"), ("b", r#"{"z":1,"a":[true]}"#), ("7", "1.50")]));
    assert_eq!(
        built.bad.described[..2],
        [(4, "it has no value".to_string()), (5, "it has no field `value`".to_string())]
    );
    assert!(built.bad.described[2].1.starts_with("it is not a JSON object: "));
}

/// What a build takes of a text, and what it says of the rest.
fn lines(name: &str, text: &str) -> (Model, Vec<(u64, String)>) {
    let place = Place::new();
    let (built, entries) = place.build(&place.options(name, text)).unwrap();
    assert_eq!(built.bad.count, built.bad.described.len() as u64);
    let strict = BuildOptions { strict: true, ..place.options(name, text) };
    let strict = build(&strict, &mut |_| ()).map_err(|error| error.to_string());
    match built.bad.described.first() {
        None => assert!(strict.is_ok(), "{text:?}: {strict:?}"),
        Some((line, why)) => {
            let said = strict.expect_err(text);
            assert!(said.ends_with(&format!("{name}: line {line}: {why}")), "{text:?}: {said}");
        }
    }
    (entries, built.bad.described)
}

#[test]
fn a_row_with_wrong_quotes_takes_no_other_with_it() {
    const BEHIND: &str = "it has text behind a closing quote";
    const INSIDE: &str = "it has a quote inside a field without quotes around it";
    let open = |line| format!("its quote is not closed up to the end, in line {line}");
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [(u64, String)]);
    let cases: &[Case<'_>] = &[
        ("a,\"1\nb,2\nc,3\n", &[("b", "2"), ("c", "3")], &[(2, open(4))]),
        ("a,\"1\nb,2\nc,\"3\"\nd,4\n", &[("b", "2"), ("c", "3"), ("d", "4")], &[(2, BEHIND.into())]),
        ("a,1\nb,\"cut", &[("a", "1")], &[(3, open(3))]),
        ("a,1\n\"b", &[("a", "1")], &[(3, open(3))]),
        ("a,1\nb,\"2\"\"", &[("a", "1")], &[(3, open(3))]),
        ("a,\"1\"x\nb,2\n", &[("b", "2")], &[(2, BEHIND.into())]),
        ("\"a\"x,1\nb,2\n", &[("b", "2")], &[(2, BEHIND.into())]),
        ("a,\"1\" \nb,2\n", &[("b", "2")], &[(2, BEHIND.into())]),
        ("a, \"1\"\nb,2\n", &[("b", "2")], &[(2, INSIDE.into())]),
        ("a,5\" disk\nb,2\n", &[("b", "2")], &[(2, INSIDE.into())]),
        ("a,1\rb,2\r", &[], &[(2, "it has a carriage return that ends no line".into())]),
        (
            "a,1,x\nb\nc,3\n,\n",
            &[("c", "3")],
            &[(2, "it has 3 columns".into()), (3, "it has 1 columns".into()), (5, "it has no key".into())],
        ),
        // These are as they must be.
        (
            "a,\"1\r\n2\n\n3\"\r\n\n\"b\",\"\"\"\"\nc,\"\"\nd,",
            &[("a", "1\r\n2\n\n3"), ("b", "\""), ("c", ""), ("d", "")],
            &[],
        ),
    ];
    for (rows, entries, bad) in cases {
        assert_eq!(lines("x.csv", &format!("key,value\n{rows}")), (model(entries), bad.to_vec()), "{rows:?}");
    }
    let tabs = lines("x.tsv", "key\tvalue\na\t\"1\nb\t2\tx\nc\nd\t4");
    assert_eq!(tabs.0, model(&[("a", "\"1"), ("d", "4")]));
    assert_eq!(tabs.1, [(3, "it has 3 columns".to_string()), (4, "it has 1 columns".to_string())]);
}

#[test]
fn a_header_that_cannot_be_used_is_named() {
    let place = Place::new();
    for (header, expected) in [
        ("key,\"value\na,1\n", "x.csv: line 1: its quote is not closed up to the end, in line 2"),
        ("key,value,value\na,1,2\n", "x.csv: there are two columns `value`"),
        ("", "x.csv: there is no column `key` among "),
    ] {
        let error = build(&place.options("x.csv", header), &mut |_| ()).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
}

proptest! {
    #[test]
    fn rows_read_back_whatever_is_in_them(
        fields in proptest::collection::vec(("[a-z]{1,8}", "[ab,\"\r\n\t]{0,12}"), 0..20),
        end in prop::sample::select(vec!["\n", "\r\n"]),
    ) {
        let rows: String = fields.iter().map(|(key, value)| format!("{key},\"{}\"{end}", value.replace('"', "\"\""))).collect();
        let expected: Model = fields.into_iter().map(|(key, value)| (key.into_bytes(), value.into_bytes())).collect();
        prop_assert_eq!(lines("x.csv", &format!("key,value{end}{rows}")), (expected, Vec::new()));
    }

    /// Every line is an entry, a part of one, or named.
    #[test]
    fn no_row_is_lost(rows in proptest::collection::vec("[ab,\"]{1,6}", 0..30)) {
        let place = Place::new();
        let text = format!("key,value\n{}", rows.iter().map(|row| format!("{row}\n")).collect::<String>());
        let (built, _) = place.build(&place.options("x.csv", &text)).unwrap();
        let lines_of_entries = rows.len() as u64 - built.bad.count.min(rows.len() as u64);
        prop_assert!(built.bad.count <= rows.len() as u64);
        prop_assert!(built.entries + built.replaced <= lines_of_entries);
        prop_assert!(rows.is_empty() || built.bad.count > 0 || built.entries > 0);
    }
}

#[test]
fn a_json_array_is_no_line() {
    const ARRAY: &str = "it is not a JSON object: it is an array, of which `jq -c .[]` makes lines";
    let within = |line| (line, "it is a part of the JSON array that begins in line 1".to_string());
    let array = "[\n{\"key\":\"a\",\"value\":1},\n{\"key\":\"b\",\"value\":2}\n]\n";
    assert_eq!(lines("x.json", array), (model(&[]), vec![(1, ARRAY.to_string()), within(2), within(3), within(4)]));
    let (entries, bad) = lines("x.json", &format!("  \n {array}"));
    assert_eq!((entries, bad.len()), (model(&[]), 5));
    let one = "[{\"key\":\"a\",\"value\":1}]\n{\"key\":\"b\",\"value\":2}\n";
    assert_eq!(lines("x.json", one), (model(&[("b", "2")]), vec![(1, ARRAY.to_string())]));
    for line in [
        "{\"key\":\"a\",\"value\":1,\"value\":2}",
        "{\"key\":\"a\",\"key\":\"b\",\"value\":2}",
        "{\"key\":\"a\",\"value\":1}{\"key\":\"b\",\"value\":2}",
        "{\"key\":\"a\",\"value\":1} x",
        "{\"key\":\"a\",\"value\":\"cut",
        "{\"key\":\"a\",\"value\":\"\\ud800\"}",
        "{\"key\":\"a\",\"value\":01}",
        "{\"key\":null,\"value\":1}",
        "\"a\"",
        "  ",
    ] {
        let (entries, bad) = lines("x.jsonl", &format!("{line}\n{{\"key\":\"z\",\"value\":9}}"));
        assert_eq!((entries, bad.len(), bad[0].0), (model(&[("z", "9")]), 1, 1), "{line}: {bad:?}");
    }
}

#[test]
fn a_key_alone_may_have_an_empty_value() {
    let place = Place::new();
    let mut options = place.options("x.data", "a\nb \n c\n");
    options.input.empty_values = true;
    let (built, entries) = place.build(&options).unwrap();
    assert_eq!(entries, model(&[("a", ""), ("b", "")]));
    assert_eq!(built.bad.described, [(3, "it has no key".to_string())]);
}

#[test]
fn only_json_and_tables_have_an_empty_key() {
    let place = Place::new();
    let lines = "{\"key\":\"\",\"value\":\"v\"}\n{\"key\":null,\"value\":\"w\"}\n{\"key\":\"a\",\"value\":\"\"}\n";
    let (built, entries) = place.build(&place.options("x.json", lines)).unwrap();
    assert_eq!(entries, model(&[("", "v"), ("a", "")]));
    assert_eq!(built.bad.described, [(2, "it has no key".to_string())]);
    let (built, entries) = place.build(&place.options("x.csv", "key,value\n,v\na,b\n")).unwrap();
    assert_eq!(entries, model(&[("a", "b")]));
    assert_eq!(built.bad.described, [(2, "it has no key".to_string())]);
}

#[test]
fn files_of_other_kinds_are_no_input() {
    let place = Place::new();
    let utf16: Vec<u8> = "\u{feff}a 1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let table = bytes_of(&numbered(3), 0, 0);
    let files: [(&[u8], &str); 9] = [
        (b"\x1f\x8b\x08\0 a\nb c\n", "it is compressed; decompress it with `gzip -dk "),
        (b"\x28\xb5\x2f\xfd\0 a\n", "it is compressed; decompress it with `zstd -dk "),
        (b"\xfd7zXZ\0 a\n", "it is compressed; decompress it with `xz -dk "),
        (&utf16, "it is text in UTF-16; `iconv "),
        (&table, "it is a table; "),
        (
            include_bytes!("../../snapshot/gcache.dump"),
            "it is a dump of GCache; convert it with `larder snapshot convert ",
        ),
        (b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n", "it is an append-only file of Redis, which "),
        (b"SQLite format 3\0 a\n", "it is a database of SQLite, which "),
        (b"PGDMP\x01 a\n", "it is an archive of pg_dump, which "),
    ];
    for (bytes, expected) in files {
        for name in ["x.data", "x.csv", "x.jsonl"] {
            std::fs::write(place.path(name), bytes).unwrap();
            let options = BuildOptions::of(Input::of(place.path(name)), place.path("out.ltab"));
            let error = build(&options, &mut |_| ()).unwrap_err().to_string();
            assert!(error.contains(&format!("{name}: {expected}")), "{error}");
        }
    }
    assert!(!place.path("out.ltab").exists());
}
