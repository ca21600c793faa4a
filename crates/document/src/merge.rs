//! JSON Merge Patch (RFC 7386).
use crate::{
    scan::{Span, child, is_empty, key_and_value, parts, place_of},
    splice::Splice,
    string::unescaped,
};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// A patch with more members than this looks them up in an index of the object's members.
const FEW: usize = 8;

/// The text after a merge patch. Both are compact, and so the result is nested no deeper than they
/// are.
pub fn merge(text: &[u8], patch: &[u8]) -> Vec<u8> {
    crate::splice::apply(text, &merges(text, &(0..text.len()), patch))
}

/// The changes that a merge patch makes to the value at `span`, in their order in the text.
pub(crate) fn merges(text: &[u8], span: &Span, patch: &[u8]) -> Vec<Splice> {
    let mut splices = Vec::new();
    note(text, span, patch, &mut splices);
    splices.sort_by_key(|splice| splice.at.start);
    splices
}

fn note(text: &[u8], span: &Span, patch: &[u8], splices: &mut Vec<Splice>) {
    if patch.first() != Some(&b'{') || text[span.start] != b'{' {
        let mut with = Vec::with_capacity(patch.len());
        push_without_nulls(patch, &mut with);
        return splices.push(Splice::replace(span.clone(), with));
    }
    let members: Vec<(Span, Span)> =
        parts(patch, 0).into_iter().filter_map(|member| key_and_value(patch, member)).collect();
    let index = (members.len() > FEW).then(|| index(text, span));
    let mut added = Vec::new();
    for (key, value) in members {
        let value = &patch[value];
        let held = match &index {
            Some(index) => index.get(&patch[key.clone()]).cloned(),
            None => {
                let name = unescaped(&patch[key.start + 1..key.end - 1]);
                child(text, span.start, &String::from_utf8_lossy(&name))
            }
        };
        match held {
            Some(held) if value == b"null" => splices.push(Splice::remove(place_of(text, &held))),
            Some(held) => note(text, &held, value, splices),
            None if value == b"null" => {}
            None => {
                if !added.is_empty() || !is_empty(text, span.start) {
                    added.push(b',');
                }
                added.extend_from_slice(&patch[key]);
                added.push(b':');
                push_without_nulls(value, &mut added);
            }
        }
    }
    if !added.is_empty() {
        splices.push(Splice::replace(span.end - 1..span.end - 1, added));
    }
}

/// Where the values of an object's members are, by key with quotes.
fn index<'t>(text: &'t [u8], span: &Span) -> HashMap<&'t [u8], Span, RandomState> {
    parts(text, span.start)
        .into_iter()
        .filter_map(|member| key_and_value(text, member))
        .map(|(key, value)| (&text[key], value))
        .collect()
}

/// A patch as the value that it makes where nothing was: without its members that are null. Within
/// arrays they stay.
fn push_without_nulls(patch: &[u8], out: &mut Vec<u8>) {
    if patch.first() != Some(&b'{') {
        return out.extend_from_slice(patch);
    }
    out.push(b'{');
    let begin = out.len();
    for member in parts(patch, 0) {
        let Some((key, value)) = key_and_value(patch, member) else { continue };
        if patch[value.clone()] == *b"null" {
            continue;
        }
        if out.len() > begin {
            out.push(b',');
        }
        out.extend_from_slice(&patch[key]);
        out.push(b':');
        push_without_nulls(&patch[value], out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of RFC 7386, appendix A.
    #[test]
    fn the_examples_of_the_rfc() {
        for (text, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            let merged = merge(text.as_bytes(), patch.as_bytes());
            assert_eq!(String::from_utf8_lossy(&merged), result, "{text} with {patch}");
        }
    }
}
