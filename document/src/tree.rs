//! A document as a tree, for paths that a scan cannot follow: the library's values, and beside them
//! where each lies in the text.
use crate::{
    compact::MAX_DEPTH,
    locate::{Found, LocateError},
    scan::{Span, key_and_value, parts},
    shape::{MAX_VISITS, Order, Shape},
    string::unescaped,
};
use serde_json::{Map, Number, Value};
use serde_json_path::JsonPath;

/// Where a value and what is in it lie.
struct Node {
    span: Span,
    /// Elements in order, or members in the order of the text.
    parts: Vec<(String, Node)>,
}

/// What a path finds, in the order of RFC 9535, with duplicates.
///
/// # Errors
/// The path may find values too often.
pub(crate) fn query(text: &[u8], path: &JsonPath, shape: Shape) -> Result<Vec<Found>, LocateError> {
    // A text that is nested too deep is no document.
    let Some((value, root)) = node(text, 0..text.len(), 0) else { return Ok(Vec::new()) };
    let mut places = Places::default();
    places.note(&value, &root, 0, 0);
    if shape.is_too_high(&places.values_at) {
        return Err(LocateError::TooMany(MAX_VISITS));
    }
    places.by_address.sort_unstable();
    let mut found: Vec<usize> = path.query(&value).iter().filter_map(|found| places.of(found)).collect();
    match shape.order() {
        Order::Text => found.sort_unstable(),
        Order::Above(levels) => found.sort_unstable_by_key(|place| (places.above(*place, levels), *place)),
        Order::Found => {}
    }
    Ok(found.into_iter().map(|place| places.all[place].found.clone()).collect())
}

/// A value in the text.
struct Place {
    found: Found,
    /// The number of the value that it is in; the root's is its own.
    parent: usize,
}

/// Where each value of a tree lies in the text. The library's own locations are lists of steps, which
/// take much more memory.
#[derive(Default)]
struct Places {
    /// In the order of the text.
    all: Vec<Place>,
    /// Their numbers by the addresses of the values.
    by_address: Vec<(usize, usize)>,
    /// How many values there are at each depth.
    values_at: Vec<u64>,
}

impl Places {
    /// Notes a value and what is in it.
    fn note(&mut self, value: &Value, node: &Node, parent: usize, depth: usize) {
        let number = self.all.len();
        self.all.push(Place { found: Found { span: node.span.clone(), depth }, parent });
        self.by_address.push((address(value), number));
        if self.values_at.len() == depth {
            self.values_at.push(0);
        }
        self.values_at[depth] += 1;
        match value {
            Value::Array(values) => {
                for (value, (_, node)) in values.iter().zip(&node.parts) {
                    self.note(value, node, number, depth + 1);
                }
            }
            Value::Object(members) => {
                for (key, node) in &node.parts {
                    if let Some(value) = members.get(key) {
                        self.note(value, node, number, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }

    fn of(&self, value: &Value) -> Option<usize> {
        let at = self.by_address.binary_search_by_key(&address(value), |(address, _)| *address).ok()?;
        Some(self.by_address[at].1)
    }

    /// The value so many levels above.
    fn above(&self, place: usize, levels: usize) -> usize {
        (0..levels).fold(place, |place, _| self.all[place].parent)
    }
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
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
