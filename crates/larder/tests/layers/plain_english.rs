//! Texts for users are plain English: riddles that were in them once do not come back.
//!
//! The files with help texts and descriptions are checked; `openapi.json`, README and the pages in
//! `docs` with the cells of their tables; and the comments of all code. A paragraph is one text, so
//! that a phrase is found over the end of a line.
use std::{fs, path::Path};

/// A phrase, as whole words without regard to case, and what to write instead.
const PHRASES: [(&str, &str); 33] = [
    ("anew", "again"),
    ("and its kin", "and related commands"),
    ("and their kin", "and related commands"),
    ("as redis has it", "like Redis"),
    ("for so long", "for this long"),
    ("at most so long", "at most this long"),
    ("is to be", "must be"),
    ("are to be", "must be"),
    ("such as are", "that are"),
    ("that which", "the noun"),
    ("thereof", "of the noun"),
    ("what is over", "excess requests"),
    ("says the password", "authenticates"),
    ("as http is meant", "standard HTTP"),
    ("passed over", "ignored"),
    ("the begin of", "the start of"),
    ("goes on being", "is still"),
    ("nobody", "no client, no node"),
    ("somebody", "a client, a person"),
    ("whoever", "every client that"),
    ("is no redis", "is not a Redis server"),
    ("is no json", "is not JSON"),
    ("is no table", "is not a table"),
    ("is no snapshot", "is not a snapshot"),
    ("is no number", "is not a number"),
    ("longer than nothing", "longer than zero"),
    ("may leave lying", "undelivered"),
    ("prove themselves", "say what is counted"),
    ("remembers why", "causes are kept"),
    ("a word for who", "a clear error for clients that"),
    ("sign of life", "keep-alive"),
    ("what came of", "the outcome of"),
    ("fault to order", "injected fault"),
];

/// Files with texts for users.
const SOURCES: [&str; 4] = [
    "crates/config/src/reference_page.rs",
    "crates/redis/src/command_table.rs",
    "crates/http/src/messages/problem_json.rs",
    "crates/http/src/routing/route_table.rs",
];
/// Folders of such files.
const FOLDERS: [&str; 4] = [
    "crates/larder/src/cli",
    "crates/larder/src/cli/client_commands",
    "crates/config/src/settings_table",
    "crates/base/src/telemetry/metric_table",
];

/// The phrases that a text has.
fn found(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let spaced = format!(" {} ", words.join(" "));
    let phrases = PHRASES.iter().filter(|(phrase, _)| spaced.contains(&format!(" {phrase} ")));
    phrases.map(|(phrase, better)| format!("`{phrase}`: write `{better}`")).collect()
}

/// The code of a file without comments, a string that is broken with a backslash on one line.
fn code(file: &str) -> String {
    let lines = file.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.map(|line| line.strip_suffix('\\').map_or_else(|| format!("{line}\n"), str::to_owned)).collect()
}

/// The parts between empty lines, each on one line, with the numbers of their first lines. A row of
/// a table is a part.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (line, number) in text.lines().zip(1..) {
        let alone = line.starts_with('|');
        match paragraphs.last_mut() {
            Some((_, paragraph)) if open && !alone && !line.is_empty() => {
                paragraph.push(' ');
                paragraph.push_str(line.trim());
            }
            _ => paragraphs.push((number, line.to_owned())),
        }
        open = !alone && !line.is_empty();
    }
    paragraphs
}

#[test]
fn a_phrase_is_found_over_the_end_of_a_line() {
    let parts = paragraphs("a that\nwhich b\n\n| c |\n| d |\n");
    assert_eq!(parts[0], (1, "a that which b".to_owned()));
    assert_eq!(found(&parts[0].1).len(), 1);
    assert_eq!(parts.iter().filter(|(_, text)| text.starts_with('|')).count(), 2);
}

#[test]
fn texts_for_users_have_no_riddles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut wrong = Vec::new();
    let mut texts = 0;
    let mut check = |place: String, text: &str| {
        texts += 1;
        wrong.extend(found(text).into_iter().map(|phrase| format!("{place}: {phrase}\n    {text}")));
    };
    let of_folders = FOLDERS.iter().flat_map(|folder| {
        let files = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
    });
    for path in SOURCES.iter().map(|file| root.join(file)).chain(of_folders) {
        for text in code(&fs::read_to_string(&path).unwrap()).lines() {
            check(path.display().to_string(), text);
        }
    }
    let pages = ["", "docs", "docs/decisions", "docs/formats", "docs/reference"].iter().flat_map(|folder| {
        let files = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
    });
    for path in pages.chain([root.join("crates/http/src/routing/openapi.json")]) {
        let text = fs::read_to_string(&path).unwrap();
        for (number, paragraph) in paragraphs(&text) {
            check(format!("{}:{number}", path.display()), &paragraph);
        }
    }
    assert!(texts > 4000, "{texts}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The comments of a file: lines that belong together as one text, with the numbers of their first
/// lines.
fn comments(file: &str) -> String {
    let text = |line: &str| {
        let comment = line.trim_start().strip_prefix("//")?;
        Some(comment.trim_start_matches(['/', '!']).trim().to_owned())
    };
    file.lines().map(|line| text(line).unwrap_or_default() + "\n").collect()
}

#[test]
fn comments_have_no_riddles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut wrong = Vec::new();
    let mut texts = 0;
    for folder in ["crates", "bench", "fuzz"] {
        for path in super::documents::files(&root.join(folder), "rs") {
            // It has the phrases.
            if path.ends_with("plain_english.rs") {
                continue;
            }
            for (number, text) in paragraphs(&comments(&fs::read_to_string(&path).unwrap())) {
                texts += 1;
                wrong.extend(found(&text).into_iter().map(|phrase| format!("{}:{number}: {phrase}", path.display())));
            }
        }
    }
    assert!(texts > 10_000, "{texts}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_phrase_is_found_in_a_comment_of_two_lines() {
    let text = comments("/// Starts it\n/// anew.\nfn anew() {}\n");
    assert_eq!(paragraphs(&text).iter().flat_map(|(_, text)| found(text)).count(), 1, "{text}");
}

#[test]
fn phrases_are_whole_words() {
    assert_eq!(found("Start it anew."), ["`anew`: write `again`"]);
    assert!(found("a newer copy, the kindest").is_empty());
}
