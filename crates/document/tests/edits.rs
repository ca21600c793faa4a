//! Random edits of random documents, beside the same edits of serde_json's values.
use larder_document::{
    Edit, Edited, Found, NumberEdit, Outcome, Patch, Path, Pointer, apply, compact, find, find_pointer, merge,
};
use proptest::prelude::*;
use serde_json::{Map, Value};

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{1,2}", "[a\\\\\",{}\\[\\]: é\n\u{1}]{0,9}"]
}

/// A document with keys that collide often, so that paths find something.
fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_i64..100).prop_map(Value::from),
        Just(Value::from(1.5)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// All places of a document: pointers.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(i, value)| places(value, &format!("{at}/{i}"), out))
        }
        Value::Object(members) => {
            for (key, value) in members {
                places(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), out);
            }
        }
        _ => {}
    }
}

fn whole(text: &[u8], edited: Edited) -> Vec<u8> {
    match edited {
        Edited::Same => text.to_vec(),
        Edited::Part(splice) => apply(text, &[splice]),
        Edited::Whole(text) => text,
    }
}

#[derive(Debug, Clone)]
enum Change {
    Replace(Value),
    Delete,
    Append(Vec<Value>),
    Insert(i64, Vec<Value>),
    Pop(i64),
    Trim(i64, i64),
    Add(i64),
    AppendText(String),
    Toggle,
    Clear,
    Merge(Value),
}

fn change() -> impl Strategy<Value = Change> {
    let some = || prop::collection::vec(document(), 1..3);
    prop_oneof![
        document().prop_map(Change::Replace),
        Just(Change::Delete),
        some().prop_map(Change::Append),
        (-4_i64..7, some()).prop_map(|(at, values)| Change::Insert(at, values)),
        (-4_i64..7).prop_map(Change::Pop),
        (-4_i64..7, -4_i64..7).prop_map(|(from, to)| Change::Trim(from, to)),
        any::<i16>().prop_map(|by| Change::Add(by.into())),
        text().prop_map(Change::AppendText),
        Just(Change::Toggle),
        Just(Change::Clear),
        document().prop_map(Change::Merge),
    ]
}

/// RFC 7386, as its pseudocode has it.
fn merged(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = if let Value::Object(members) = target { members } else { Map::new() };
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.remove(key)),
            value => {
                let held = target.remove(key).unwrap_or(Value::Null);
                target.insert(key.clone(), merged(held, value));
            }
        }
    }
    Value::Object(target)
}

/// The same on the model; `None`: it is for values of another kind, or refused.
fn model(value: &mut Value, change: &Change) -> Option<()> {
    match (change, &mut *value) {
        (Change::Replace(with), value) => *value = with.clone(),
        (Change::Append(more), Value::Array(values)) => values.extend(more.iter().cloned()),
        (Change::Insert(at, more), Value::Array(values)) => {
            let at = if *at < 0 { at + values.len() as i64 } else { *at };
            let at = usize::try_from(at).ok().filter(|at| *at <= values.len())?;
            values.splice(at..at, more.iter().cloned());
        }
        (Change::Pop(at), Value::Array(values)) => {
            let len = values.len() as i64;
            if len > 0 {
                let at = if *at < 0 { (at + len).max(0) } else { (*at).min(len - 1) };
                values.remove(at as usize);
            }
        }
        (Change::Trim(from, to), Value::Array(values)) => {
            let len = values.len() as i64;
            let resolve = |at: i64| if at < 0 { (at + len).max(0) } else { at };
            let (from, to) = (resolve(*from), resolve(*to).min(len - 1));
            *values = values
                .iter()
                .enumerate()
                .filter(|(i, _)| (from..=to).contains(&(*i as i64)))
                .map(|(_, v)| v.clone())
                .collect();
        }
        (Change::Add(by), Value::Number(number)) => {
            *value = match number.as_i64() {
                Some(held) => Value::from(held + by),
                None => Value::from(number.as_f64()? + *by as f64),
            }
        }
        (Change::AppendText(more), Value::String(text)) => text.push_str(more),
        (Change::Toggle, Value::Bool(truth)) => *truth = !*truth,
        (Change::Clear, Value::Array(values)) => values.clear(),
        (Change::Clear, Value::Object(members)) => members.clear(),
        (Change::Clear, Value::Number(number)) => *number = 0.into(),
        (Change::Merge(patch), value) => *value = merged(value.take(), patch),
        _ => return None,
    }
    Some(())
}

fn edited(text: &[u8], found: &[Found], change: &Change) -> Option<(Vec<u8>, Vec<Option<Outcome>>)> {
    let texts = |values: &[Value]| values.iter().map(|value| value.to_string().into_bytes()).collect::<Vec<_>>();
    let one = |value: &Value| value.to_string().into_bytes();
    let (value, values, number, inside);
    let edit = match change {
        Change::Replace(with) => {
            value = one(with);
            Edit::Replace(&value)
        }
        Change::Merge(patch) => {
            value = one(patch);
            Edit::Merge(&value)
        }
        Change::Append(more) => {
            values = texts(more);
            Edit::Append(&values)
        }
        Change::Insert(at, more) => {
            values = texts(more);
            Edit::Insert(*at, &values)
        }
        Change::Add(by) => {
            number = by.to_string();
            Edit::Number(NumberEdit::Add, &number)
        }
        Change::AppendText(more) => {
            inside = Value::from(more.as_str()).to_string();
            Edit::AppendText(&inside.as_bytes()[1..inside.len() - 1])
        }
        Change::Delete => Edit::Delete,
        Change::Pop(at) => Edit::Pop(*at),
        Change::Trim(from, to) => Edit::Trim(*from, *to),
        Change::Toggle => Edit::Toggle,
        Change::Clear => Edit::Clear,
    };
    let (edited, outcomes) = edit.apply(text, found, usize::MAX).ok()?;
    Some((whole(text, edited), outcomes))
}

fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}

proptest! {
    #[test]
    fn an_edit_of_one_place_is_the_models(value in document(), at: prop::sample::Index, change in change()) {
        let text = value.to_string().into_bytes();
        let mut all = Vec::new();
        places(&value, "", &mut all);
        let place = &all[at.index(all.len())];
        let pointer = Pointer::parse(place).unwrap();
        let found = find_pointer(&text, &pointer).expect("it is there");
        prop_assert_eq!(&parsed(&text[found.span.clone()]), value.pointer(place).unwrap());
        if matches!(change, Change::Delete) {
            prop_assume!(!place.is_empty());
            let (parent, last) = place.rsplit_once('/').unwrap();
            let mut expected = value.clone();
            match expected.pointer_mut(parent).unwrap() {
                Value::Array(values) => drop(values.remove(last.parse().unwrap())),
                Value::Object(members) => drop(members.remove(&last.replace("~1", "/").replace("~0", "~"))),
                other => panic!("{other} has parts"),
            }
            let (after, _) = edited(&text, &[found], &change).unwrap();
            prop_assert_eq!(parsed(&after), expected);
            return Ok(());
        }
        let mut expected = value.clone();
        let is_changed = model(expected.pointer_mut(place).unwrap(), &change).is_some();
        match edited(&text, &[found], &change) {
            Some((after, outcomes)) => {
                prop_assert_eq!(outcomes[0].is_some(), is_changed);
                let expected = if is_changed { expected } else { value };
                prop_assert_eq!(parsed(&after), expected);
                prop_assert_eq!(compact(&after).unwrap(), after, "it stays compact");
            }
            None => prop_assert!(!is_changed),
        }
    }

    #[test]
    fn an_edit_of_all_values_of_a_path_is_the_models(
        value in document(),
        path in prop::sample::select(vec!["$..a", "$.*", "$..*", "$[*][*]", "$..[0]", "$..[?@.a]", "$.a", "$..b[1:]"]),
        change in change(),
    ) {
        let text = value.to_string().into_bytes();
        let found = find(&text, &Path::parse(path).unwrap(), usize::MAX).unwrap();
        let mut all = Vec::new();
        places(&value, "", &mut all);
        let spans: Vec<_> =
            all.iter().map(|place| (place, find_pointer(&text, &Pointer::parse(place).unwrap()).unwrap().span)).collect();
        // From the innermost to the outermost; what goes, goes whole.
        let mut expected = value.clone();
        let takes_whole = matches!(change, Change::Replace(_) | Change::Delete);
        prop_assume!(!matches!(change, Change::Delete));
        let mut refused = false;
        // A path with `..` does not find them in the order of the text.
        let mut in_text: Vec<&Found> = found.iter().collect();
        in_text.sort_by_key(|found| found.span.start);
        let mut last_end = 0;
        let outermost = |found: &&&Found| {
            let is = found.span.start >= last_end;
            last_end = last_end.max(found.span.end);
            is
        };
        let chosen: Vec<_> = if takes_whole { in_text.iter().filter(outermost).collect() } else { in_text.iter().collect() };
        for found in chosen.into_iter().rev() {
            let (place, _) = spans.iter().find(|(_, span)| *span == found.span).unwrap();
            let target = expected.pointer_mut(place).unwrap();
            let is_fit = !matches!((&change, &*target), (Change::Insert(..), Value::Array(_)));
            refused |= model(target, &change).is_none() && !is_fit;
        }
        match edited(&text, &found, &change) {
            Some((after, _)) if !refused => prop_assert_eq!(parsed(&after), expected),
            Some(_) => prop_assert!(false, "it is refused"),
            None => prop_assert!(refused),
        }
    }

    #[test]
    fn all_values_of_a_path_can_go(value in document(), path in prop::sample::select(vec!["$..a", "$.*", "$..*", "$..[0]", "$[*]"])) {
        let text = value.to_string().into_bytes();
        let path = Path::parse(path).unwrap();
        let found = find(&text, &path, usize::MAX).unwrap();
        let (edited, _) = Edit::Delete.apply(&text, &found, usize::MAX).unwrap();
        let after = whole(&text, edited);
        parsed(&after);
        // An array's elements move up, so that another one may be the first.
        if !found.is_empty() {
            prop_assert!(after.len() < text.len());
        } else {
            prop_assert_eq!(after, text);
        }
    }

    #[test]
    fn a_merge_is_the_rfcs(value in document(), patch in document()) {
        let after = merge(value.to_string().as_bytes(), patch.to_string().as_bytes());
        prop_assert_eq!(parsed(&after), merged(value, &patch));
    }

    #[test]
    fn compacting_changes_no_value(value in document()) {
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        let text = compact(pretty.as_bytes()).unwrap();
        prop_assert_eq!(parsed(&text), value);
        prop_assert_eq!(compact(&text).unwrap(), text);
    }

    #[test]
    fn what_is_taken_is_json_and_what_is_not_is_not(text in "[{}\\[\\]\",:0-9eE.+\\- a\\\\utrlnfs]{0,30}") {
        let ours = compact(text.as_bytes());
        // serde_json refuses numbers that no float holds, and takes repeated keys.
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => prop_assert_eq!(parsed(&ours.unwrap()), value),
            Err(error) => prop_assert!(ours.is_err() || error.to_string().contains("number out of range"), "{}", text),
        }
    }

    #[test]
    fn any_bytes_are_refused_or_json(text in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(text) = compact(&text) {
            prop_assert!(serde_json::from_slice::<Value>(&text).is_ok());
        }
    }

    #[test]
    fn any_path_and_any_patch_can_be_read(path in "[$.a\\[\\]*?@'\"()=~!<>&|:,0-9 -]{0,20}", patch in document()) {
        let _ = Path::parse(&path);
        let _ = Patch::parse(patch.to_string().as_bytes());
    }
}
