//! What RedisJSON's documentation shows, command by command (`json_examples.txt`): over RESP2 and
//! RESP3, in memory and on a disk store.
use super::{
    larder::{Larder, connect, encode},
    resp::Reply,
};
use serde_json::Value;
use std::{
    io::{BufReader, Write as _},
    net::TcpStream,
};

const EXAMPLES: &str = include_str!("json_examples.txt");

/// A command and what it answers.
#[derive(Debug)]
struct Example<'t> {
    page: &'t str,
    command: &'t str,
    resp2: Wanted,
    resp3: Option<Wanted>,
}

#[derive(Debug)]
enum Wanted {
    Reply(Value),
    /// A text that is this JSON, in whatever order its members are.
    Json(Value),
    Error(String),
}

impl Wanted {
    fn parse(text: &str) -> Wanted {
        let json = |text: &str| {
            // A reason may follow.
            let mut values = serde_json::Deserializer::from_str(text).into_iter();
            values.next().and_then(Result::ok).unwrap_or_else(|| panic!("{text} is not JSON"))
        };
        match text.split_at(1) {
            ("!", error) => Wanted::Error(error.to_owned()),
            ("~", text) => Wanted::Json(json(text)),
            _ => Wanted::Reply(json(text)),
        }
    }

    fn is(&self, reply: &Reply) -> bool {
        match self {
            Wanted::Error(text) => reply.kind == b'-' && reply.text == text.as_bytes(),
            Wanted::Json(json) => serde_json::from_slice::<Value>(&reply.text).is_ok_and(|found| found == *json),
            Wanted::Reply(value) => value_of(reply).is_some_and(|found| found == *value),
        }
    }
}

/// A reply as JSON; `None`: an error, or a kind that no documented reply has.
fn value_of(reply: &Reply) -> Option<Value> {
    let text = || String::from_utf8_lossy(&reply.text).into_owned();
    Some(match reply.kind {
        b'$' | b'*' if reply.text == b"-1" => Value::Null,
        b'_' => Value::Null,
        b'+' | b'$' => Value::String(text()),
        b':' => text().parse::<i64>().ok()?.into(),
        // It may be written without a point.
        b',' => text().parse::<f64>().ok()?.into(),
        b'*' => Value::Array(reply.children.iter().map(value_of).collect::<Option<_>>()?),
        _ => return None,
    })
}

fn examples() -> Vec<Example<'static>> {
    let (mut examples, mut page) = (Vec::<Example<'_>>::new(), "");
    let mut is_documented_only = false;
    for line in EXAMPLES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'))
            && serde_json::from_str::<Value>(line).is_err()
        {
            page = name;
        } else if let Some(command) = line.strip_prefix("> ") {
            examples.push(Example { page, command, resp2: Wanted::Reply(Value::Null), resp3: None });
            is_documented_only = false;
        } else if line.starts_with('=') {
            is_documented_only = true;
        } else {
            let example = examples.last_mut().unwrap();
            match line.strip_prefix("3 ") {
                Some(reply) => example.resp3 = Some(Wanted::parse(reply)),
                None => {
                    assert!(!is_documented_only || line.contains(" # "), "{line}: why?");
                    example.resp2 = Wanted::parse(line);
                }
            }
        }
    }
    examples
}

/// Words as redis-cli takes them: `'…'` as it is, `"…"` with escapes.
fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, after) = match rest.split_at(1) {
            ("'", inside) => {
                let (word, after) = inside.split_once('\'').unwrap();
                (word.to_owned(), after)
            }
            ("\"", _) => {
                let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let word = strings.next().unwrap().unwrap();
                (word, &rest[strings.byte_offset()..])
            }
            _ => {
                let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
                (word.to_owned(), after)
            }
        };
        words.push(word.into_bytes());
        rest = after.trim_start();
    }
    words
}

struct Speaker {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}
impl Speaker {
    fn new(larder: &Larder, version: &str) -> Speaker {
        let stream = connect(larder.redis);
        let replies = BufReader::new(stream.try_clone().unwrap());
        let mut speaker = Speaker { stream, replies };
        assert_ne!(speaker.ask(&[b"HELLO".to_vec(), version.into()]).kind, b'-');
        speaker
    }
    fn ask(&mut self, words: &[Vec<u8>]) -> Reply {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.stream.write_all(&encode(&words)).unwrap();
        Reply::read(&mut self.replies, &mut Vec::new()).unwrap()
    }
}

fn all_are_answered(larder: &Larder) {
    let examples = examples();
    assert!(examples.len() > 120, "{} examples", examples.len());
    let mut wrong = String::new();
    for version in ["2", "3"] {
        let mut speaker = Speaker::new(larder, version);
        let mut page = "";
        for example in &examples {
            if example.page != page {
                assert_eq!(speaker.ask(&words("FLUSHALL")).text, b"OK");
                page = example.page;
            }
            let reply = speaker.ask(&words(example.command));
            let wanted = example.resp3.as_ref().filter(|_| version == "3").unwrap_or(&example.resp2);
            if !wanted.is(&reply) {
                let found =
                    value_of(&reply).map_or_else(|| String::from_utf8_lossy(&reply.text).into(), |v| v.to_string());
                wrong += &format!("RESP{version} {page}: {}\n  wanted {wanted:?}\n  found {found}\n", example.command);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn documented_examples_are_answered_in_memory() {
    all_are_answered(&Larder::start(&[]));
}

#[test]
fn documented_examples_are_answered_by_a_disk_store() {
    let dir = tempfile::tempdir().unwrap();
    all_are_answered(&Larder::start(&["--source", &format!("disk:{}", dir.path().join("store").display())]));
}
