//! The code of docs/quick-starts.md is cut from the client programs that the acceptance tests run.
use std::{fs, path::Path};

#[test]
fn code_is_that_of_the_client_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/quick-starts.md")).unwrap();
    let mut blocks = 0;
    for cut in page.split("<!-- tests/").skip(1) {
        let (file, rest) = cut.split_once(" -->\n").unwrap();
        let block = rest.split("```").nth(1).unwrap();
        let code: Vec<&str> = block.lines().skip(1).map(str::trim).collect();
        let program = fs::read_to_string(root.join("tests").join(file)).unwrap();
        let lines: Vec<&str> = program.lines().map(str::trim).collect();
        assert!(!code.is_empty() && lines.windows(code.len()).any(|window| window == code), "{file} has no\n{block}");
        blocks += 1;
    }
    assert!(blocks >= 5, "one for each language");
}

/// The first line of a code block that runs `larder`, and whether the page says before it where the
/// program comes from.
fn first_call(page: &str) -> Option<(&str, bool)> {
    let (mut inside, mut told) = (false, false);
    for line in page.lines() {
        told |= line.contains("`make install`");
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if inside && line.trim_start().starts_with("larder ") {
            return Some((line, told));
        }
    }
    None
}

#[test]
fn guides_that_type_larder_say_where_it_comes_from() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut guides = 0;
    for entry in fs::read_dir(docs).unwrap() {
        let path = entry.unwrap().path();
        // Of the benchmarks only the page of figures shows calls, which a program has written down.
        if path.extension().is_none_or(|extension| extension != "md") || path.ends_with("benchmarks.md") {
            continue;
        }
        if let Some((line, told)) = first_call(&fs::read_to_string(&path).unwrap()) {
            assert!(told, "{}: `{line}` comes before a word on `make install`", path.display());
            guides += 1;
        }
    }
    assert!(guides > 15, "{guides}");
    assert_eq!(first_call("a\n```sh\nlarder serve\n```"), Some(("larder serve", false)));
}
