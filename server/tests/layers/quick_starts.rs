//! The code of docs/quick-starts.md is cut from the client programs that the acceptance tests run.
use std::{fs, path::Path};

#[test]
fn code_is_that_of_the_client_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
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
