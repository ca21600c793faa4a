//! JSON.*: the examples of RedisJSON's documentation, and what that leaves open.
use super::support::{Client, Server};
use crate::tests::memory_store::MemoryStore;
use larder_proto::resp::{View, view};
use std::rc::Rc;

/// The parts of a line: words, and what stands between single quotes.
fn parts(line: &str) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (part, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').expect("a closing quote"),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        parts.push(part.into());
        rest = after.trim_start();
    }
    parts
}

/// A reply as it is written in the tests: texts in quotes, `nil`, arrays in brackets.
fn shown(reply: &[u8]) -> String {
    match reply.first() {
        Some(b'+') => String::from_utf8_lossy(reply[1..].trim_ascii_end()).into_owned(),
        Some(b'-' | b',') => String::from_utf8_lossy(reply.trim_ascii_end()).into_owned(),
        _ => view(reply).map(|view| seen(&view)).expect("a reply"),
    }
}
fn seen(reply: &View<'_>) -> String {
    match reply {
        View::Bulk(text) => format!("'{}'", String::from_utf8_lossy(text)),
        View::Integer(number) => number.to_string(),
        View::Array(values) => format!("[{}]", values.map(|value| seen(&value)).collect::<Vec<_>>().join(" ")),
        View::Null => "nil".into(),
        View::Simple(text) => String::from_utf8_lossy(text).into_owned(),
        View::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
        other => format!("{other:?}"),
    }
}

fn check(client: &mut Client<'_>, dialogue: &str) {
    for step in dialogue.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (line, expected) = step.split_once(" => ").expect("a command and its reply");
        assert_eq!(shown(&client.call(&parts(line))), expected.trim(), "{line}");
    }
}

#[test]
fn the_examples_of_the_documentation() {
    let server = Server::new(&[]);
    let client = &mut server.client();
    check(
        client,
        r#"
        JSON.SET doc $ '{"a":2}' => OK
        JSON.SET doc $.a '3' => OK
        JSON.GET doc $ => '[{"a":3}]'
        JSON.SET doc $.b '8' => OK
        JSON.GET doc $ => '[{"a":3,"b":8}]'
        JSON.SET doc $ '{"f1": {"a":1}, "f2":{"a":2}}' => OK
        JSON.SET doc $..a 3 => OK
        JSON.GET doc => '{"f1":{"a":3},"f2":{"a":3}}'

        JSON.SET doc $ '{"a":2, "b": 3, "nested": {"a": 4, "b": null}}' => OK
        JSON.GET doc $..b => '[3,null]'
        JSON.GET doc ..a $..b => '{"..a":[2,4],"$..b":[3,null]}'

        JSON.SET doc1 $ '{"a":1, "b": 2, "nested": {"a": 3}, "c": null}' => OK
        JSON.SET doc2 $ '{"a":4, "b": 5, "nested": {"a": 6}, "c": null}' => OK
        JSON.MGET doc1 doc2 $..a => ['[1,3]' '[4,6]']

        JSON.SET doc $ '{"a": 1, "nested": {"a": 2, "b": 3}}' => OK
        JSON.DEL doc $..a => 2
        JSON.GET doc $ => '[{"nested":{"b":3}}]'

        JSON.SET doc $ '{"a":2, "nested": {"a": true}, "foo": "bar"}' => OK
        JSON.TYPE doc $..foo => ['string']
        JSON.TYPE doc $..a => ['integer' 'boolean']
        JSON.TYPE doc $..dummy => []

        JSON.SET doc . '{"a":"b","b":[{"a":2}, {"a":5}, {"a":"c"}]}' => OK
        JSON.NUMINCRBY doc $.a 2 => '[null]'
        JSON.NUMINCRBY doc $..a 2 => '[null,4,7,null]'
        JSON.SET doc . '{"a":"b","b":[{"a":2}, {"a":5}, {"a":"c"}]}' => OK
        JSON.NUMMULTBY doc $.a 2 => '[null]'
        JSON.NUMMULTBY doc $..a 2 => '[null,4,10,null]'

        JSON.SET doc $ '{"a":"foo", "nested": {"a": "hello"}, "nested2": {"a": 31}}' => OK
        JSON.STRAPPEND doc $..a '"baz"' => [6 8 nil]
        JSON.GET doc $ => '[{"a":"foobaz","nested":{"a":"hellobaz"},"nested2":{"a":31}}]'
        JSON.SET doc $ '{"a":"foo", "nested": {"a": "hello"}, "nested2": {"a": 31}}' => OK
        JSON.STRLEN doc $..a => [3 5 nil]

        JSON.SET item:1 $ '{"name":"Noise-cancelling Bluetooth headphones","connection":{"wireless":true,"type":"Bluetooth"},"price":99.98,"stock":25,"colors":["black","silver"]}' => OK
        JSON.ARRAPPEND item:1 $.colors '"blue"' => [3]
        JSON.GET item:1 => '{"name":"Noise-cancelling Bluetooth headphones","connection":{"wireless":true,"type":"Bluetooth"},"price":99.98,"stock":25,"colors":["black","silver","blue"]}'
        JSON.ARRINDEX item:1 $..colors '"silver"' => [1]
        JSON.ARRINSERT item:1 $.colors 2 '"yellow"' '"gold"' => [5]
        JSON.GET item:1 $.colors => '[["black","silver","yellow","gold","blue"]]'
        JSON.ARRTRIM item:1 $.colors 1 1 => [1]
        JSON.GET item:1 $.colors => '[["silver"]]'
        JSON.ARRLEN item:1 '$.[*]' => [nil nil nil nil 1]

        JSON.SET key $ '[["black",59.95],["white",3,"x"]]' => OK
        JSON.ARRPOP key $.[1] 0 => ['"white"']
        JSON.GET key $ => '[[["black",59.95],[3,"x"]]]'
        JSON.ARRPOP key => '[3,"x"]'

        JSON.SET doc $ '{"a":[3], "nested": {"a": {"b":2, "c": 1}}}' => OK
        JSON.OBJKEYS doc $..a => [nil ['b' 'c']]
        JSON.OBJLEN doc $..a => [nil 2]

        JSON.SET doc $ '{"bool": true}' => OK
        JSON.TOGGLE doc $.bool => [0]
        JSON.GET doc $ => '[{"bool":false}]'
        JSON.TOGGLE doc $.bool => [1]

        JSON.SET doc $ '{"obj":{"a":1, "b":2}, "arr":[1,2,3], "str": "foo", "bool": true, "int": 42, "float": 3.14}' => OK
        JSON.CLEAR doc $.* => 4
        JSON.GET doc $ => '[{"obj":{},"arr":[],"str":"foo","bool":true,"int":0,"float":0}]'
        JSON.CLEAR doc $.* => 0

        JSON.SET doc $ '{"a":2}' => OK
        JSON.MERGE doc $.b '8' => OK
        JSON.GET doc $ => '[{"a":2,"b":8}]'
        JSON.MERGE doc $.a 3 => OK
        JSON.GET doc $ => '[{"a":3,"b":8}]'
        JSON.MERGE doc $ '{"a":null}' => OK
        JSON.GET doc $ => '[{"b":8}]'
        JSON.SET doc $ '{"a":[2,4,6,8]}' => OK
        JSON.MERGE doc $.a '[10,12]' => OK
        JSON.GET doc $ => '[{"a":[10,12]}]'
        JSON.SET doc $ '{"f1": {"a":1}, "f2":{"a":2}}' => OK
        JSON.MERGE doc $ '{"f1": null, "f2":{"a":3, "b":4}, "f3":[2,4,6]}' => OK
        JSON.GET doc => '{"f2":{"a":3,"b":4},"f3":[2,4,6]}'

        JSON.MSET doc1 $ '{"a":1}' doc2 $ '{"f":{"a":2}}' doc3 $ '{"f1":{"a":0},"f2":{"a":0}}' => OK
        JSON.MSET doc1 $ '{"a":2}' doc2 $.f.a '3' doc3 $ '{"f1":{"a":1},"f2":{"a":2}}' => OK
        JSON.MGET doc1 doc2 doc3 $ => ['[{"a":2}]' '[{"f":{"a":3}}]' '[{"f1":{"a":1},"f2":{"a":2}}]']
        "#,
    );
    let store = r#"{"inventory":{"bikes":[{"model":"Phoebe","price":1920,"specs":{"material":"carbon","weight":13.1},"colors":["black","silver"]},
        {"model":"Quaoar","price":2072,"specs":{"material":"aluminium","weight":7.9},"colors":["black","white"]},
        {"model":"Weywot","price":3264,"specs":{"material":"alloy","weight":13.8},"regex":"(?i)^al"}]}}"#;
    client.call(&["JSON.SET", "bikes", "$", store].map(|part| part.as_bytes().to_vec()));
    check(
        client,
        r#"
        JSON.GET bikes $..model => '["Phoebe","Quaoar","Weywot"]'
        JSON.GET bikes $.inventory.bikes[0].model => '["Phoebe"]'
        JSON.GET bikes '$.inventory.bikes[?(@.price < 3000 && @.specs.weight < 10)]..model' => '["Quaoar"]'
        JSON.GET bikes '$..[?(@.specs.material == "alloy")].model' => '["Weywot"]'
        JSON.GET bikes '$..[?(@.specs.material =~ "(?i)AL")].model' => '["Quaoar","Weywot"]'
        JSON.GET bikes $.inventory.bikes[-1:].model => '["Weywot"]'
        JSON.NUMINCRBY bikes $..price -100 => '[1820,1972,3164]'
        JSON.GET bikes $..price => '[1820,1972,3164]'
        "#,
    );
}

#[test]
fn the_older_path_syntax_is_about_one_value() {
    let server = Server::new(&[]);
    let client = &mut server.client();
    check(
        client,
        r#"
        JSON.SET amoreinstantes . '"foo"' => OK
        JSON.GET amoreinstantes . => '"foo"'
        JSON.SET o . '{"foo":"bar","baz":42,"l":[1,2.5],"t":true}' => OK
        JSON.GET o .foo => '"bar"'
        JSON.GET o foo baz => '{"foo":"bar","baz":42}'
        JSON.GET o .nope => -ERR Path does not exist
        JSON.GET nokey => nil
        JSON.GET o INDENT '  ' NEWLINE | SPACE ~ .l => '[|  1,|  2.5|]'
        JSON.TYPE o => 'object'
        JSON.TYPE o .l[1] => 'number'
        JSON.TYPE o .nope => nil
        JSON.NUMINCRBY o .baz 0.5 => '42.5'
        JSON.NUMINCRBY o .foo 1 => -ERR Path does not exist or does not contains a number
        JSON.STRLEN o .foo => 3
        JSON.STRLEN o .baz => -WRONGTYPE wrong type of path value - expected string
        JSON.STRAPPEND o foo '"!"' => 4
        JSON.ARRLEN o .l => 2
        JSON.ARRLEN o .foo => -ERR Path does not exist or not an array
        JSON.ARRAPPEND o l true null => 4
        JSON.ARRPOP o .l 0 => '1'
        JSON.ARRINDEX o .l null => 2
        JSON.ARRINSERT o .l 9 0 => -ERR index out of bounds
        JSON.TOGGLE o .t => 'false'
        JSON.OBJKEYS o => ['foo' 'baz' 'l' 't']
        JSON.OBJLEN o => 4
        JSON.OBJLEN o .foo => -WRONGTYPE wrong type of path value - expected object
        JSON.DEL o .foo => 1
        JSON.FORGET o => 1
        EXISTS o => 0
        JSON.ARRAPPEND o . 1 => -ERR could not perform this operation on a key that doesn't exist
        "#,
    );
}

#[test]
fn conditions_and_places_that_do_not_exist() {
    let server = Server::new(&[]);
    check(
        &mut server.client(),
        r#"
        JSON.SET d $.a 1 => -ERR new objects must be created at the root
        JSON.SET d $ '{}' XX => nil
        JSON.SET d $ '{"a":[]}' NX => OK
        JSON.SET d $ '{}' NX => nil
        JSON.SET d $.a 1 NX => nil
        JSON.SET d $.b 1 XX => nil
        JSON.SET d $.b 1 NX => OK
        JSON.SET d $.x.y 1 => nil
        JSON.SET d $.a[3] 1 => -ERR array index out of range
        JSON.SET d $..x 1 => -ERR wrong static path
        JSON.SET d $.b '{"n":01}' => -ERR this is not a number of JSON at byte 7
        JSON.GET d => '{"a":[],"b":1}'
        JSON.DEL d $.a => 1
        JSON.DEL d $.b => 1
        EXISTS d => 0
        JSON.MSET d $ '[1]' e $.x 1 => -ERR new objects must be created at the root
        EXISTS d => 0
        JSON.MSET d $ '{}' d $.a 1 d $.b[0] 2 => -ERR array index out of range
        EXISTS d => 0
        JSON.MSET d $ '{}' d $.a 1 d $.b.c 2 => OK
        JSON.GET d => '{"a":1}'
        "#,
    );
}

#[test]
fn a_document_keeps_its_text() {
    let server = Server::new(&[]);
    check(
        &mut server.client(),
        r#"
        JSON.SET d $ ' { "z" : 1.10, "a" : 12345678901234567890, "é\u00e9\/" : "\u00e9\n" , "e":1E400, "a" : 2 } ' => OK
        JSON.GET d => '{"z":1.10,"éé/":"\u00e9\n","e":1E400,"a":2}'
        JSON.SET d $.new '[ 1.0 ]' => OK
        JSON.GET d $.z $.new => '{"$.z":[1.10],"$.new":[[1.0]]}'
        JSON.STRLEN d $.éé/ => [3]
        JSON.NUMINCRBY d $.a 9223372036854775807 => -ERR numeric overflow
        JSON.SET d $.b [65504] FPHA FP16 => OK
        JSON.SET d $.b [65505] FPHA FP16 => -ERR value out of range
        JSON.SET d $.b [1] FPHA FP16 FPHA FP16 => -ERR syntax error
        "#,
    );
}

/// The commands that all keys have.
fn generic_commands(client: &mut Client<'_>) {
    check(
        client,
        r#"
        JSON.SET doc $ '{"a":1}' => OK
        SET string 1 => OK
        TYPE doc => ReJSON-RL
        OBJECT ENCODING doc => 'raw'
        GET doc => -WRONGTYPE Operation against a key holding the wrong kind of value
        GETEX doc => -WRONGTYPE Operation against a key holding the wrong kind of value
        GETDEL doc => -WRONGTYPE Operation against a key holding the wrong kind of value
        GETSET doc 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        SET doc 1 GET => -WRONGTYPE Operation against a key holding the wrong kind of value
        APPEND doc x => -WRONGTYPE Operation against a key holding the wrong kind of value
        STRLEN doc => -WRONGTYPE Operation against a key holding the wrong kind of value
        GETRANGE doc 0 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        SETRANGE doc 0 x => -WRONGTYPE Operation against a key holding the wrong kind of value
        INCR doc => -WRONGTYPE Operation against a key holding the wrong kind of value
        INCRBYFLOAT doc 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        MGET doc string none => [nil '1' nil]
        JSON.GET string => -WRONGTYPE Operation against a key holding the wrong kind of value
        JSON.SET string $ 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        JSON.DEL string => -WRONGTYPE Operation against a key holding the wrong kind of value
        JSON.MGET string doc none $.a => [nil '[1]' nil]
        EXPIRE doc 100 => 1
        JSON.NUMINCRBY doc $.a 1 => '[2]'
        TTL doc => 100
        COPY doc copy => 1
        RENAME doc moved => OK
        JSON.GET moved => '{"a":2}'
        TTL moved => 100
        JSON.SET copy $.a 7 => OK
        JSON.GET moved $.a => '[2]'
        PERSIST moved => 1
        DEL copy => 1
        SCAN 0 TYPE rejson-rl COUNT 100 => ['0' ['moved']]
        SCAN 0 TYPE string COUNT 100 => ['0' ['string']]
        WATCH moved => OK
        MULTI => OK
        JSON.ARRAPPEND moved $.a 1 => QUEUED
        JSON.SET moved $.b '[]' => QUEUED
        JSON.ARRAPPEND moved $.b 1 2 => QUEUED
        GET moved => QUEUED
        EXEC => [[nil] OK [2] -WRONGTYPE Operation against a key holding the wrong kind of value]
        JSON.GET moved => '{"a":2,"b":[1,2]}'
        SET moved plain => OK
        TYPE moved => string
        GET moved => 'plain'
        "#,
    );
}

#[test]
fn documents_are_keys_like_others() {
    let server = Server::new(&[]);
    let mut client = server.client();
    generic_commands(&mut client);
    client.say("JSON.SET doc $ 1");
    let mut other = server.client();
    client.say("WATCH doc");
    client.say("MULTI");
    client.say("JSON.GET doc");
    other.say("JSON.NUMINCRBY doc $ 1");
    assert_eq!(client.say("EXEC"), "*-1\r\n", "the document was changed");
}

#[test]
fn documents_are_kept_by_a_store_of_this_machine() {
    let store = MemoryStore::default();
    let server = Server::with_source(&[], Rc::new(store.clone()));
    let run = |dialogue: &'static str| {
        let mut client = server.client();
        super::support::runtime().block_on(async {
            for step in dialogue.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let (line, expected) = step.split_once(" => ").expect("a command and its reply");
                assert_eq!(shown(&client.wait(&parts(line)).await), expected.trim(), "{line}");
            }
        });
    };
    run(r#"
        JSON.SET doc $ '{"a":[1]}' => OK
        SET string 1 => OK
        JSON.ARRAPPEND doc $.a 2 => [2]
        TYPE doc => ReJSON-RL
        GET doc => -WRONGTYPE Operation against a key holding the wrong kind of value
        EXPIRE doc 100 => 1
    "#);
    // What the memory tier forgets is a document again when it comes from the store.
    server.worker.groups.default().cache.tier().clear();
    run(r#"
        GET doc => -WRONGTYPE Operation against a key holding the wrong kind of value
        JSON.GET doc => '{"a":[1,2]}'
    "#);
    server.worker.groups.default().cache.tier().clear();
    run(r#"
        MGET doc string => [nil '1']
        SCAN 0 TYPE ReJSON-RL COUNT 100 => ['0' ['doc']]
        JSON.SET doc $.b 1 => OK
        TTL doc => 100
        RENAME doc other => OK
        JSON.GET other $ => '[{"a":[1,2],"b":1}]'
        APPEND other x => -WRONGTYPE Operation against a key holding the wrong kind of value
        SET other x => OK
        GET other => 'x'
    "#);
}

#[test]
fn replies_in_resp3() {
    let server = Server::new(&[]);
    let mut client = server.client();
    client.say("HELLO 3");
    let reply = |client: &mut Client<'_>, line: &str| String::from_utf8(client.call(&parts(line))).expect("text");
    reply(&mut client, r#"JSON.SET d $ '{"a":1,"b":1.5,"c":"x"}'"#);
    assert_eq!(reply(&mut client, "JSON.TYPE d $.a"), "*1\r\n*1\r\n$7\r\ninteger\r\n");
    assert_eq!(reply(&mut client, "JSON.TYPE d .a"), "*1\r\n$7\r\ninteger\r\n");
    assert_eq!(reply(&mut client, "JSON.TYPE none $"), "*1\r\n_\r\n");
    assert_eq!(reply(&mut client, "JSON.NUMINCRBY d $.* 1"), "*3\r\n:2\r\n,2.5\r\n_\r\n");
    assert_eq!(reply(&mut client, "JSON.NUMINCRBY d .a 1"), "*1\r\n:3\r\n");
    assert_eq!(reply(&mut client, "JSON.GET d FORMAT STRING $.a"), "$3\r\n[3]\r\n");
    assert_eq!(reply(&mut client, "JSON.GET d FORMAT EXPAND $.a"), "-ERR wrong reply format\r\n");
    assert_eq!(reply(&mut client, "JSON.GET none"), "_\r\n");
}

#[test]
fn limits_are_said() {
    let server = Server::new(&["--max-value", "1KiB", "--max-document-query", "1KiB"]);
    let mut client = server.client();
    let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
    assert_eq!(client.say(&format!("JSON.SET d $ {deep}")), "-ERR arrays and objects are nested deeper than 128\r\n");
    client.say(&format!("JSON.SET d $ {}{}", "[".repeat(127), "]".repeat(127)));
    let inner = format!("${}", "[0]".repeat(126));
    assert_eq!(client.say(&format!("JSON.ARRAPPEND d {inner} []")), "*1\r\n:1\r\n");
    let nested = client.say(&format!("JSON.ARRAPPEND d {inner}[0] []"));
    assert_eq!(nested, "-ERR arrays and objects would be nested deeper than 128\r\n");
    let text = format!("\"{}\"", "x".repeat(1000));
    client.say(&format!("JSON.SET s $ [{text}]"));
    let long = client.say(&format!("JSON.ARRAPPEND s $ {text}"));
    assert_eq!(long, "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
    let server = Server::new(&["--max-document-query", "100"]);
    let mut client = server.client();
    client.say(&format!("JSON.SET s $ [{text}]"));
    let large = client.say("JSON.GET s $..x..y");
    let said = "-ERR a path with filters, slices, several selectors or several `..` is for documents of up to 100 bytes (max-document-query)\r\n";
    assert_eq!(large, said);
    assert_eq!(client.say("JSON.MGET s none $..x..y"), said, "not null, as if there was no document");
    assert_eq!(client.say("JSON.GET s $..x"), "$2\r\n[]\r\n");
    assert_eq!(client.say("JSON.ARRLEN s $"), "*1\r\n:1\r\n");
}

#[test]
fn many_paths_and_many_texts_are_bounded() {
    let server = Server::new(&["--max-buffers", "1MiB"]);
    let mut client = server.client();
    client.say("JSON.SET d $ 1");
    let many: Vec<String> = (0..200).map(|path| format!("$.x{path}")).collect();
    let read = client.say(&format!("JSON.GET d {}", many.join(" ")));
    assert!(read.contains(r#""$.x0":[]"#) && read.contains(r#""$.x199":[]"#), "{read}");
    assert_eq!(client.say("JSON.GET d $ $ ."), "$17\r\n{\"$\":[1],\".\":[1]}\r\n");
    client.say(&format!("JSON.SET d $ \"{}\"", "x".repeat(20 << 20)));
    let refused = client.say(&format!("JSON.GET d {}", many.join(" ")));
    assert_eq!(refused, "-ERR 200 paths are too many for a document of 20971522 bytes\r\n");

    // Each text is a copy, though the output only refers to it.
    client.say(&format!("JSON.SET t $ \"{}\"", "x".repeat(50_000)));
    let few = client.say("JSON.MGET t t t $");
    assert!(few.starts_with("*3\r\n$50004\r\n[\"xxx"), "{}", &few[..40]);
    let refused = client.say(&format!("JSON.MGET {}$", "t ".repeat(100)));
    assert!(refused.contains("-ERR the reply does not fit into the buffers now"), "{}", &refused[..60]);
}

#[test]
fn a_large_document_is_changed_in_place_and_its_readers_keep_theirs() {
    let server = Server::new(&[]);
    let mut client = server.client();
    let element = "1234567";
    let list = format!("[{}]", [element; 20_000].join(","));
    client.say(&format!("JSON.SET list $ {list}"));
    let cache = &server.worker.groups.default().cache;
    let key = || cache.key(b"list");
    let held = cache.tier().peek(key(), 0, |entry| entry.value.to_bytes()).expect("it is there");
    assert_eq!(client.say("JSON.ARRAPPEND list $ 1"), "*1\r\n:20001\r\n");
    assert_eq!(held, list.as_bytes(), "the reader keeps what it read");
    drop(held);
    let bytes = || cache.tier().peek(key(), 0, |entry| (entry.value.as_bytes().as_ptr() as usize, entry.footprint()));
    let (at, _) = bytes().expect("it is there");
    for number in 0..100 {
        assert_eq!(client.say("JSON.ARRAPPEND list $ 2"), format!("*1\r\n:{}\r\n", 20_002 + number));
    }
    let (after, footprint) = bytes().expect("it is there");
    assert_eq!(at, after, "it has grown where it was");
    let len = client.call(&parts("JSON.GET list .")).len();
    assert!(footprint * 5 <= len * 6, "{footprint} bytes for {len}");
    assert_eq!(cache.tier().peek(key(), 0, |entry| entry.note()), Some(Some(20_101)), "its length is known");
    assert_eq!(client.say("JSON.ARRPOP list $ -1"), "*1\r\n$1\r\n2\r\n");
    assert_eq!(cache.tier().peek(key(), 0, |entry| entry.note()), Some(None), "no more");
    assert_eq!(client.say("JSON.ARRAPPEND list $ 2"), "*1\r\n:20101\r\n");
    assert_eq!(client.say("JSON.ARRPOP list $ -1"), "*1\r\n$1\r\n2\r\n");
    assert_eq!(client.say("JSON.GET list $[0]"), format!("$9\r\n[{element}]\r\n"));
    assert_eq!(client.say("JSON.CLEAR list"), ":1\r\n");
    let (_, footprint) = bytes().expect("it is there");
    assert!(footprint < 1000, "{footprint}");
}
