//! A document as a tree, for paths that a scan cannot follow: the library's values, and beside them
//! where each lies in the text.
use crate::{
    compact::MAX_DEPTH,
    locate::Found,
    scan::{Span, key_and_value, parts},
    string::unescaped,
};
use serde_json::{Map, Number, Value};
use serde_json_path::{JsonPath, PathElement};

/// Where a value and what is in it lie.
struct Node {
    span: Span,
    /// Elements in order, or members by key.
    parts: Vec<(String, Node)>,
}

/// What a path finds, in the order of the text. `None`: the text is nested too deep, so it is no
/// document.
pub(crate) fn query(text: &[u8], path: &JsonPath) -> Option<Vec<Found>> {
    let (value, root) = node(text, 0..text.len(), 0)?;
    let mut found: Vec<Found> = Vec::new();
    for located in path.query_located(&value) {
        let mut at = &root;
        let mut depth = 0;
        for step in located.location().iter() {
            depth += 1;
            at = match step {
                PathElement::Name(name) => {
                    let member = at.parts.binary_search_by(|(key, _)| key.as_str().cmp(name)).ok()?;
                    &at.parts[member].1
                }
                PathElement::Index(index) => &at.parts.get(*index)?.1,
            };
        }
        found.push(Found { span: at.span.clone(), depth });
    }
    found.sort_by_key(|found| found.span.start);
    // A path with several selectors may find a value twice.
    found.dedup_by(|a, b| a.span == b.span);
    Some(found)
}

/// The value of a text.
pub(crate) fn value(text: &[u8]) -> Option<Value> {
    node(text, 0..text.len(), 0).map(|(value, _)| value)
}

fn node(text: &[u8], span: Span, depth: usize) -> Option<(Value, Node)> {
    if depth > MAX_DEPTH {
        return None;
    }
    let (value, parts) = match text.get(span.start)? {
        b'[' => {
            let elements = parts(text, span.start).into_iter().map(|part| node(text, part, depth + 1));
            let (values, nodes): (Vec<_>, Vec<_>) = elements.collect::<Option<Vec<_>>>()?.into_iter().unzip();
            (Value::Array(values), nodes.into_iter().map(|node| (String::new(), node)).collect())
        }
        b'{' => {
            let mut values = Map::new();
            let mut nodes = Vec::new();
            for part in parts(text, span.start) {
                let (key, place) = key_and_value(text, part)?;
                let name = string(text, &key);
                let (value, node) = node(text, place, depth + 1)?;
                values.insert(name.clone(), value);
                nodes.push((name, node));
            }
            nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
            (Value::Object(values), nodes)
        }
        _ => (leaf(text, &span), Vec::new()),
    };
    Some((value, Node { span, parts }))
}

fn leaf(text: &[u8], span: &Span) -> Value {
    match &text[span.clone()] {
        b"true" => Value::Bool(true),
        b"false" => Value::Bool(false),
        b"null" => Value::Null,
        [b'"', ..] => Value::String(string(text, span)),
        // A number beyond the range of a float has no value to compare with.
        number => serde_json::from_slice::<Number>(number).map_or(Value::Null, Value::Number),
    }
}

fn string(text: &[u8], span: &Span) -> String {
    let inside = text.get(span.start + 1..span.end.saturating_sub(1)).unwrap_or_default();
    String::from_utf8_lossy(&unescaped(inside)).into_owned()
}
