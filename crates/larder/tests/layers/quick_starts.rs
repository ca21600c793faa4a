//! The programs of docs/quick-starts.md are those that the acceptance tests run.
use std::{fs, path::Path};

#[test]
fn programs_are_whole_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/quick-starts.md")).unwrap();
    let mut programs = 0;
    for cut in page.split("<!-- tests/").skip(1) {
        let (file, rest) = cut.split_once(" -->\n").unwrap();
        let block = rest.split("```").nth(1).unwrap();
        let (_, shown) = block.split_once('\n').unwrap();
        let program = fs::read_to_string(root.join("tests").join(file)).unwrap();
        assert_eq!(shown, program, "tests/{file}");
        programs += 1;
    }
    assert_eq!(programs, 9, "one for each language, and the cache handler of Next.js");
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
