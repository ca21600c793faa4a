//! Short commands that find many values in a long document: how long the document may become, and
//! how much work a command may be.
use larder_document::{Edit, EditError, Edited, Found, NumberEdit, Patch, PatchError, Path, find};

fn repeated(value: &str, times: usize) -> Vec<u8> {
    format!("[{}]", vec![value; times].join(",")).into_bytes()
}

fn all(text: &[u8], path: &str) -> Vec<Found> {
    find(text, &Path::parse(path).expect("a path"), usize::MAX).expect("values")
}

fn len_of(edit: &Edit<'_>, text: &[u8], path: &str, max_len: usize) -> Result<usize, EditError> {
    edit.apply(text, &all(text, path), max_len).map(|(edited, _)| match edited {
        Edited::Whole(whole) => whole.len(),
        other => other.len_after(text.len()),
    })
}

#[test]
fn many_values_do_not_make_a_document_too_long() {
    let strings = repeated("\"\"", 1000);
    let longer = format!("\"{}\"", "x".repeat(100));
    let element = [longer.clone().into_bytes()];
    let member = format!("{{\"a\":{longer}}}");
    let (arrays, nested) = (repeated("[]", 1000), repeated("[[1]]", 1000));
    for (edit, text, path) in [
        (Edit::Replace(longer.as_bytes()), &strings, "$[*]"),
        (Edit::AppendText(&longer.as_bytes()[1..101]), &strings, "$[*]"),
        (Edit::Append(&element), &arrays, "$[*]"),
        (Edit::Insert(0, &element), &nested, "$..*"),
        (Edit::Merge(member.as_bytes()), &strings, "$[*]"),
    ] {
        let len = len_of(&edit, text, path, usize::MAX).expect("no limit");
        assert!(len > 100_000, "{edit:?}");
        assert_eq!(len_of(&edit, text, path, len), Ok(len), "{edit:?}");
        assert_eq!(len_of(&edit, text, path, len - 1), Err(EditError::TooLarge(len - 1)), "{edit:?}");
    }
}

#[test]
fn values_within_each_other_are_not_changed_one_by_one_in_a_long_text() {
    let text = repeated("[1]", 100_000);
    assert_eq!(len_of(&Edit::Clear, &text, "$..*", usize::MAX), Err(EditError::TooMuchWork(200_000)));
    let short = repeated("[1]", 1000);
    assert_eq!(len_of(&Edit::Clear, &short, "$..*", usize::MAX), Ok(short.len() - 1000));
    // These need not: numbers have no values within them, and elements are added in places of their own.
    assert_eq!(len_of(&Edit::Number(NumberEdit::Add, "1"), &text, "$..*", usize::MAX), Ok(text.len()));
    let added = len_of(&Edit::Append(&[b"1".to_vec()]), &text, "$..*", usize::MAX);
    assert_eq!(added, Ok(text.len() + 2 * 100_000));
}

#[test]
fn many_operations_do_not_go_over_a_long_document() {
    let text = format!("\"{}\"", "x".repeat(1 << 20)).into_bytes();
    let test = r#"{"op":"test","path":"","value":1}"#.replace('1', std::str::from_utf8(&text).expect("text"));
    let short = r#"{"op":"replace","path":"/0","value":2}"#;
    let patch = |operations: usize| Patch::parse(&repeated(short, operations)).expect("a patch");
    let long = [b"[1,", &text[..], b"]"].concat();
    assert!(patch(100).apply(&long, usize::MAX).is_ok());
    assert_eq!(patch(2000).apply(&long, usize::MAX), Err(PatchError::TooMuchWork(1023)));
    assert!(patch(2000).apply(b"[1]", usize::MAX).is_ok());
    // One operation may go over any document.
    assert_eq!(
        Patch::parse(format!("[{test}]").as_bytes()).expect("a patch").apply(&text, usize::MAX),
        Ok(Edited::Same)
    );
}

#[test]
fn a_long_argument_is_not_read_for_many_values() {
    let patch = format!("{{\"{}\":null}}", "k".repeat(1 << 20));
    let merge = Edit::Merge(patch.as_bytes());
    assert_eq!(len_of(&merge, &repeated("{}", 1024), "$[*]", usize::MAX), Err(EditError::TooMuchWork(1024)));
    assert_eq!(len_of(&merge, &repeated("{}", 2), "$[*]", usize::MAX), Ok(7));
    // A number is read once.
    let by = format!("0.{}1", "0".repeat(1 << 20));
    assert_eq!(len_of(&Edit::Number(NumberEdit::Add, &by), &repeated("1", 4000), "$[*]", usize::MAX), Ok(16_001));
}
