//! JSON Patch (RFC 6902).
use crate::{
    compact::compact,
    edit::{Edit, EditError, Edited, MOST_WORK},
    equality::Comparison,
    error::{JsonError, PathError},
    locate::find_pointer,
    path::{Pointer, array_index},
    scan::{Found, child, count, element, key_and_value, parts},
    splice::{Splice, apply},
    string::unescaped,
};
use std::fmt;

/// A patch, read.
#[derive(Debug, Clone)]
pub struct Patch(Vec<Operation>);

#[derive(Debug, Clone)]
enum Operation {
    Add(Pointer, Vec<u8>),
    Remove(Pointer),
    Replace(Pointer, Vec<u8>),
    Move { from: Pointer, to: Pointer },
    Copy { from: Pointer, to: Pointer },
    Test(Pointer, Vec<u8>),
}

/// Why a patch was not applied. Operations are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchError {
    /// The patch is not JSON.
    Json(JsonError),
    /// It is no list of operations, or one of them is not as the RFC has it.
    Malformed(String),
    /// This operation found no value where it needs one.
    NotFound(usize),
    /// This test failed.
    TestFailed(usize),
    /// The document would be longer than this many bytes.
    TooLarge(usize),
    /// The operations up to this one go over too many bytes.
    TooMuchWork(usize),
    /// This operation cannot be done.
    Edit(usize, EditError),
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatchError::Json(error) => write!(f, "the patch is not JSON: {error}"),
            PatchError::Malformed(what) => f.write_str(what),
            PatchError::NotFound(at) => write!(f, "operation {at}: there is no value at its path"),
            PatchError::TestFailed(at) => write!(f, "operation {at}: the value is another one"),
            PatchError::TooLarge(most) => write!(f, "the document would be longer than {most} bytes"),
            PatchError::TooMuchWork(at) => {
                write!(f, "operation {at}: there are too many for a document of this length; send several patches")
            }
            PatchError::Edit(at, error) => write!(f, "operation {at}: {error}"),
        }
    }
}

impl std::error::Error for PatchError {}

impl Patch {
    /// Reads a patch.
    ///
    /// # Errors
    /// `Json` or `Malformed`.
    pub fn parse(text: &[u8]) -> Result<Patch, PatchError> {
        let text = compact(text).map_err(PatchError::Json)?;
        if text.first() != Some(&b'[') {
            return Err(PatchError::Malformed("a JSON Patch is an array of operations".into()));
        }
        let operations = parts(&text, 0);
        let read = operations.into_iter().enumerate().map(|(at, part)| operation(&text[part], at));
        Ok(Patch(read.collect::<Result<_, _>>()?))
    }

    /// The document after all operations, or an error and no change. `max_len`: the most bytes that
    /// it may have meanwhile.
    ///
    /// # Errors
    /// An operation fails.
    pub fn apply(&self, text: &[u8], max_len: usize) -> Result<Edited, PatchError> {
        let mut edited = Edited::Same;
        let mut changed: Option<Vec<u8>> = None;
        let mut work = 0_usize;
        for (at, operation) in self.0.iter().enumerate() {
            // The first change stays a change of a part until there is a second one.
            if let (None, Edited::Part(first)) = (&changed, &edited)
                && !matches!(operation, Operation::Test(..))
            {
                changed = Some(apply(text, std::slice::from_ref(first)));
            }
            let tested;
            let now: &[u8] = match (&changed, &edited) {
                (Some(changed), _) => changed,
                (None, Edited::Part(first)) => {
                    tested = apply(text, std::slice::from_ref(first));
                    &tested
                }
                (None, _) => text,
            };
            let splices = operation.plan(now, &mut work).map_err(|problem| problem.of(at))?;
            let growth: usize = splices.iter().map(Splice::growth).sum();
            if now.len() + growth > max_len {
                return Err(PatchError::TooLarge(max_len));
            }
            // One operation may go over any document; a short patch must not do so thousands of times. What
            // grows needs new memory, which costs about eight times a copy.
            work += now.len() + 8 * growth;
            if at > 0 && work > MOST_WORK {
                return Err(PatchError::TooMuchWork(at));
            }
            match (Edited::of(now, splices), &mut changed) {
                (Edited::Same, _) => {}
                (Edited::Part(splice), Some(changed)) => *changed = apply(changed, &[splice]),
                (Edited::Whole(whole), changed) => *changed = Some(whole),
                (part, None) => edited = part,
            }
        }
        Ok(changed.map_or(edited, Edited::Whole))
    }
}

/// Why an operation failed.
enum Problem {
    NotFound,
    TestFailed,
    Edit(EditError),
}

impl Problem {
    fn of(self, at: usize) -> PatchError {
        match self {
            Problem::NotFound => PatchError::NotFound(at),
            Problem::TestFailed => PatchError::TestFailed(at),
            Problem::Edit(error) => PatchError::Edit(at, error),
        }
    }
}

impl Operation {
    /// Its changes, in their order in the text. `work` grows by the bytes that a comparison reads.
    fn plan(&self, text: &[u8], work: &mut usize) -> Result<Vec<Splice>, Problem> {
        let at = |pointer| find_pointer(text, pointer).ok_or(Problem::NotFound);
        match self {
            Operation::Add(to, value) => add(text, to, value),
            Operation::Remove(from) if from.is_root() => Err(Problem::NotFound),
            Operation::Remove(from) => planned(&Edit::Delete, text, at(from)?),
            Operation::Replace(to, value) => planned(&Edit::Replace(value), text, at(to)?),
            Operation::Copy { from, to } => add(text, to, &text[at(from)?.span]),
            Operation::Test(path, value) => {
                let mut comparison = Comparison::default();
                let is_equal = comparison.are_equal(&text[at(path)?.span], value);
                *work += comparison.work;
                if is_equal { Ok(Vec::new()) } else { Err(Problem::TestFailed) }
            }
            Operation::Move { from, to } => {
                let found = at(from)?;
                let value = text[found.span.clone()].to_vec();
                if from == to {
                    return Ok(Vec::new());
                }
                let without = apply(text, &planned(&Edit::Delete, text, found)?);
                let splices = add(&without, to, &value)?;
                Ok(vec![Splice::replace(0..text.len(), apply(&without, &splices))])
            }
        }
    }
}

fn planned(edit: &Edit<'_>, text: &[u8], found: Found) -> Result<Vec<Splice>, Problem> {
    match edit.apply(text, &[found], usize::MAX).map_err(Problem::Edit)?.0 {
        Edited::Same => Ok(Vec::new()),
        Edited::Part(splice) => Ok(vec![splice]),
        Edited::Whole(whole) => Ok(vec![Splice::replace(0..text.len(), whole)]),
    }
}

/// Adds a value where it is lacking, before the element that is there, or in place of the member
/// that is there.
fn add(text: &[u8], to: &Pointer, value: &[u8]) -> Result<Vec<Splice>, Problem> {
    let Some((last, before)) = to.0.split_last() else {
        return planned(&Edit::Replace(value), text, Found::root(text));
    };
    let parent = find_pointer(text, &Pointer(before.to_vec())).ok_or(Problem::NotFound)?;
    let at = parent.span.start;
    match text[at] {
        b'{' => match child(text, at, last) {
            Some(span) => planned(&Edit::Replace(value), text, Found { span, depth: parent.depth + 1 }),
            None => planned(&Edit::AddMember(last, value), text, parent),
        },
        b'[' => {
            let values = [value.to_vec()];
            match array_index(last) {
                Some(index) if element(text, at, index).is_some() || index == count(text, at) => {
                    planned(&Edit::Insert(index as i64, &values), text, parent)
                }
                None if last == "-" => planned(&Edit::Append(&values), text, parent),
                _ => Err(Problem::NotFound),
            }
        }
        _ => Err(Problem::NotFound),
    }
}

fn operation(text: &[u8], at: usize) -> Result<Operation, PatchError> {
    let malformed = |what: &str| PatchError::Malformed(format!("operation {at}: {what}"));
    if text.first() != Some(&b'{') {
        return Err(malformed("it is not an object"));
    }
    let field = |name: &str| child(text, 0, name).map(|span| &text[span]);
    let string = |name: &str| {
        let value = field(name).ok_or_else(|| malformed(&format!("`{name}` is missing")))?;
        match value {
            [b'"', inside @ .., b'"'] => Ok(String::from_utf8_lossy(&unescaped(inside)).into_owned()),
            _ => Err(malformed(&format!("`{name}` is not a string"))),
        }
    };
    let pointer = |name: &str| {
        let read = |text: String| Pointer::parse(&text).map_err(|error: PathError| malformed(&error.to_string()));
        string(name).and_then(read)
    };
    let value = || field("value").map(<[u8]>::to_vec).ok_or_else(|| malformed("`value` is missing"));
    let path = pointer("path")?;
    let operation = match &*string("op")? {
        "add" => Operation::Add(path, value()?),
        "remove" => Operation::Remove(path),
        "replace" => Operation::Replace(path, value()?),
        "move" => {
            let from = pointer("from")?;
            if path.0.len() > from.0.len() && path.0.starts_with(&from.0) {
                return Err(malformed("a value cannot be moved into itself"));
            }
            Operation::Move { from, to: path }
        }
        "copy" => Operation::Copy { from: pointer("from")?, to: path },
        "test" => Operation::Test(path, value()?),
        other => return Err(malformed(&format!("there is no operation `{other}`"))),
    };
    // A member twice: `compact` has kept the last.
    debug_assert!(parts(text, 0).into_iter().all(|member| key_and_value(text, member).is_some()));
    Ok(operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(text: &str, patch: &str) -> Result<String, PatchError> {
        let edited = Patch::parse(patch.as_bytes())?.apply(text.as_bytes(), 1 << 20)?;
        let text = match edited {
            Edited::Same => text.as_bytes().to_vec(),
            Edited::Part(splice) => apply(text.as_bytes(), &[splice]),
            Edited::Whole(whole) => whole,
        };
        Ok(String::from_utf8(text).expect("text"))
    }

    /// The examples of RFC 6902, appendix A.
    #[test]
    fn the_examples_of_the_rfc() {
        for (text, patch, result) in [
            (r#"{"foo":"bar"}"#, r#"[{"op":"add","path":"/baz","value":"qux"}]"#, r#"{"foo":"bar","baz":"qux"}"#),
            (
                r#"{"foo":["bar","baz"]}"#,
                r#"[{"op":"add","path":"/foo/1","value":"qux"}]"#,
                r#"{"foo":["bar","qux","baz"]}"#,
            ),
            (r#"{"baz":"qux","foo":"bar"}"#, r#"[{"op":"remove","path":"/baz"}]"#, r#"{"foo":"bar"}"#),
            (r#"{"foo":["bar","qux","baz"]}"#, r#"[{"op":"remove","path":"/foo/1"}]"#, r#"{"foo":["bar","baz"]}"#),
            (
                r#"{"baz":"qux","foo":"bar"}"#,
                r#"[{"op":"replace","path":"/baz","value":"boo"}]"#,
                r#"{"baz":"boo","foo":"bar"}"#,
            ),
            (
                r#"{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}"#,
                r#"[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]"#,
                r#"{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}"#,
            ),
            (
                r#"{"foo":["all","grass","cows","eat"]}"#,
                r#"[{"op":"move","from":"/foo/1","path":"/foo/3"}]"#,
                r#"{"foo":["all","cows","eat","grass"]}"#,
            ),
            (
                r#"{"baz":"qux","foo":["a",2,"c"]}"#,
                r#"[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]"#,
                r#"{"baz":"qux","foo":["a",2,"c"]}"#,
            ),
            (
                r#"{"foo":"bar"}"#,
                r#"[{"op":"add","path":"/child","value":{"grandchild":{}}}]"#,
                r#"{"foo":"bar","child":{"grandchild":{}}}"#,
            ),
            (
                r#"{"foo":"bar"}"#,
                r#"[{"op":"add","path":"/baz","value":"qux","xyz":123}]"#,
                r#"{"foo":"bar","baz":"qux"}"#,
            ),
            (r#"{"/":9,"~1":10}"#, r#"[{"op":"test","path":"/~01","value":10}]"#, r#"{"/":9,"~1":10}"#),
            (
                r#"{"foo":["bar"]}"#,
                r#"[{"op":"add","path":"/foo/-","value":["abc","def"]}]"#,
                r#"{"foo":["bar",["abc","def"]]}"#,
            ),
        ] {
            assert_eq!(patched(text, patch).as_deref(), Ok(result), "{patch}");
        }
        let failed = |text, patch| patched(text, patch).expect_err(patch);
        assert_eq!(
            failed(r#"{"baz":"qux"}"#, r#"[{"op":"test","path":"/baz","value":"bar"}]"#),
            PatchError::TestFailed(0)
        );
        assert_eq!(
            failed(r#"{"foo":"bar"}"#, r#"[{"op":"add","path":"/baz/bat","value":"qux"}]"#),
            PatchError::NotFound(0)
        );
        assert_eq!(failed(r#"{"~1":10}"#, r#"[{"op":"test","path":"/~01","value":"10"}]"#), PatchError::TestFailed(0));
    }

    #[test]
    fn several_operations_see_the_changes_before_them() {
        let patch = r#"[{"op":"add","path":"/a","value":[1]},{"op":"test","path":"/a/0","value":1.0},
            {"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/b/0","value":null},{"op":"remove","path":"/a"}]"#;
        assert_eq!(patched(r#"{"c":{}}"#, patch).as_deref(), Ok(r#"{"c":{},"b":[null,1]}"#));
        let patch = r#"[{"op":"add","path":"/a","value":1},{"op":"test","path":"/a","value":2}]"#;
        assert_eq!(patched("{}", patch), Err(PatchError::TestFailed(1)));
    }

    #[test]
    fn a_test_compares_numbers_by_their_digits() {
        for (held, wanted, is_same) in [
            ("18446744073709551614", "18446744073709551615", false),
            ("18446744073709551615", "18446744073709551615.0", true),
            ("[9007199254740993]", "[9007199254740992]", false),
            ("1e400", "null", false),
            ("1e400", "10e399", true),
            ("0.1", "0.10000000000000001", false),
            (r#"{"a":1,"b":-0}"#, r#"{"b":0,"a":1e0}"#, true),
        ] {
            let patch = format!(r#"[{{"op":"test","path":"","value":{wanted}}}]"#);
            let expected = if is_same { Ok(held.to_owned()) } else { Err(PatchError::TestFailed(0)) };
            assert_eq!(patched(held, &patch), expected, "{held} and {wanted}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for patch in [
            "{}",
            "[1]",
            "[{}]",
            r#"[{"op":"add","path":"/a"}]"#,
            r#"[{"op":"no","path":"/a"}]"#,
            r#"[{"op":"add","path":"a","value":1}]"#,
            r#"[{"op":"move","from":"/a","path":"/a/b"}]"#,
            r#"[{"op":1,"path":""}]"#,
        ] {
            assert!(matches!(Patch::parse(patch.as_bytes()), Err(PatchError::Malformed(_))), "{patch}");
        }
        assert!(matches!(Patch::parse(b"["), Err(PatchError::Json(_))));
        let doubling = format!("[{}]", vec![r#"{"op":"copy","from":"","path":"/a/-"}"#; 40].join(","));
        assert!(matches!(patched(r#"{"a":[]}"#, &doubling), Err(PatchError::TooLarge(_) | PatchError::Edit(..))));
    }
}
