//! The documents: width of their lines, paths that exist, a list of all decisions, claims equal to
//! the pages that they link, charts that say where they come from.
use regex::Regex;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files below a folder, without those of builds and dependencies.
pub(super) fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "node_modules"].contains(&name.as_str()) {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|this| this == extension) {
            found.push(path);
        }
    }
    found
}

fn pages() -> Vec<(String, String)> {
    let root = root();
    let shown = |path: &Path| path.strip_prefix(&root).unwrap().display().to_string();
    let pages: Vec<_> =
        files(&root, "md").into_iter().map(|path| (shown(&path), fs::read_to_string(path).unwrap())).collect();
    assert!(pages.len() > 100, "{}", pages.len());
    pages
}

/// The lines outside of code blocks, with their numbers.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().zip(1..).filter_map(move |(line, number)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced).then_some((number, line))
    })
}

/// Whether a line of more than 100 columns could be shorter: it has a space outside of code spans
/// and links.
fn could_be_shorter(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['-', ' ']);
    let (mut code, mut link) = (false, false);
    let spaces = text.chars().filter(|c| {
        match c {
            '`' => code = !code,
            '[' if !code => link = true,
            ']' => link = false,
            _ => {}
        }
        *c == ' ' && !code && !link
    });
    line.chars().count() > 100 && !line.starts_with(['|', '!', '<']) && spaces.count() > 0
}

#[test]
fn lines_of_prose_have_at_most_100_columns() {
    let mut long = Vec::new();
    for (page, text) in pages() {
        let lines = prose(&text).filter(|(_, line)| could_be_shorter(line));
        long.extend(lines.map(|(number, line)| format!("{page}:{number}: {line}")));
    }
    assert!(long.is_empty(), "{} lines of more than 100 columns:\n{}", long.len(), long.join("\n"));
    assert!(could_be_shorter(&"word ".repeat(21)) && !could_be_shorter(&"word ".repeat(20)));
    assert!(!could_be_shorter(&format!("`{}`", "word ".repeat(30))) && !could_be_shorter(&"| word".repeat(30)));
}

#[test]
fn files_that_the_documents_name_exist() {
    let sources: Vec<String> =
        files(&root(), "rs").into_iter().map(|path| path.to_string_lossy().replace('\\', "/")).collect();
    let code = Regex::new(r"`([A-Za-z0-9_/.-]+\.rs)`").unwrap();
    let (mut missing, mut named) = (Vec::new(), 0);
    for (page, text) in pages() {
        for (number, line) in prose(&text) {
            for name in code.captures_iter(line).map(|found| found.get(1).unwrap().as_str()) {
                named += 1;
                if !sources.iter().any(|source| source.ends_with(&format!("/{name}"))) {
                    missing.push(format!("{page}:{number}: {name}"));
                }
            }
        }
    }
    assert!(named > 100, "{named}");
    assert!(missing.is_empty(), "no such file:\n{}", missing.join("\n"));
}

#[test]
fn every_decision_is_listed_under_its_title() {
    let folder = root().join("docs/decisions");
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let list = flat(fs::read_to_string(folder.join("README.md")).unwrap());
    let mut wrong = Vec::new();
    for path in files(&folder, "md").into_iter().filter(|path| !path.ends_with("README.md")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let heading = text.lines().next().unwrap_or_default().strip_prefix("# ").and_then(|line| line.split_once(": "));
        let listed = |(number, title): (&str, &str)| {
            name.starts_with(&format!("{number}-")) && list.contains(&format!("[{number}]({name}) {title}"))
        };
        if !heading.is_some_and(listed) {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "`# NUMBER: TITLE`, and `- [NUMBER](FILE) TITLE` in the list: {wrong:?}");
}

/// Text without comments and without what is between quotes in a line.
fn code(line: &str) -> String {
    let line = line.split("//").next().unwrap_or_default();
    line.split('"').step_by(2).collect()
}

#[test]
fn security_md_counts_the_unsafe_blocks() {
    let text = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let block = Regex::new(r"\bunsafe\b").unwrap();
    let mut found = 0;
    for path in super::CRATES.map(|of| root().join(of).join("src")) {
        for path in files(&path, "rs") {
            let source = fs::read_to_string(&path).unwrap();
            let blocks = source.lines().map(|line| block.find_iter(&code(line)).count()).sum::<usize>();
            if blocks > 0 {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                let said = format!("`{name}` ({blocks} block{})", if blocks == 1 { "" } else { "s" });
                assert!(text.contains(&said), "SECURITY.md does not say {said}");
                found += 1;
            }
        }
    }
    assert_eq!(text.matches(".rs` (").count(), found, "SECURITY.md names files without unsafe code");
}

/// One click from the index, which is the only list: every page, and other systems' words.
#[test]
fn the_index_leads_to_every_page_and_people_of_other_systems_to_theirs() {
    let index = fs::read_to_string(root().join("docs/README.md")).unwrap();
    for page in files(&root().join("docs"), "md") {
        let name = page.strip_prefix(root().join("docs")).unwrap().display().to_string();
        if name != "README.md" && (!name.starts_with("decisions/") || name == "decisions/README.md") {
            assert!(index.contains(&format!("]({name})")), "docs/README.md does not link {name}");
        }
    }
    for word in ["graceful", "error injection", "perfect hash", "mmap", "minikube"] {
        let row = index.lines().find(|line| line.starts_with('|') && line.contains(word));
        assert!(row.is_some_and(|row| row.contains("](")), "docs/README.md does not say where to read about {word}");
    }
}

#[test]
fn the_http_reference_has_every_route_and_every_type_of_error() {
    let page = fs::read_to_string(root().join("docs/reference/http.md")).unwrap();
    let source = |name: &str| fs::read_to_string(root().join("crates/http/src").join(name)).unwrap();
    let row = Regex::new(r#"(?m)^    [A-Z]+ "(/[^"]*)""#).unwrap();
    let rows = source("routing/route_table.rs");
    let paths: Vec<&str> = row.captures_iter(&rows).map(|found| found.get(1).unwrap().as_str()).collect();
    assert!(paths.len() > 70, "{paths:?}");
    // The page names a group's routes together.
    let paths = paths.into_iter().filter(|path| !path.contains("{group}"));
    let missing: Vec<&str> = paths.filter(|path| !page.contains(path.split('{').next().unwrap())).collect();
    assert!(missing.is_empty(), "docs/reference/http.md lacks {missing:?}");
    let kind = Regex::new(r#"\("([a-z-]+)", "[A-Z]"#).unwrap();
    let problems = source("messages/problem_json.rs");
    let kinds: Vec<&str> = kind.captures_iter(&problems).map(|found| found.get(1).unwrap().as_str()).collect();
    assert!(kinds.len() > 30, "{kinds:?}");
    for kind in kinds {
        assert!(page.contains(&format!("| `/problems/{kind}` |")), "docs/reference/http.md lacks /problems/{kind}");
    }
}

/// The rows of a table that begin with this cell, as cells.
fn rows<'p>(section: &'p str, first: &str) -> Vec<Vec<&'p str>> {
    let begins = format!("| {first} |");
    let lines = section.lines().filter(|line| line.starts_with(&begins));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// What a page says below a heading.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap();
    section.split("\n## ").next().unwrap()
}

#[test]
fn figures_that_a_page_quotes_are_those_of_the_linked_page() {
    let page = |name: &str| fs::read_to_string(root().join("docs").join(name)).unwrap();
    let (classic, benchmarks) = (page("classic-benchmarks.md"), page("benchmarks.md"));
    let quoted = section(&classic, "## A proxy of Redis");
    let owned = section(&benchmarks, "## `/lookup` by connections");
    for connections in ["1", "8", "32", "128"] {
        let (quoted, owned) = (&rows(quoted, connections)[0], &rows(owned, connections)[0]);
        assert_eq!(quoted[..4], owned[..4], "classic-benchmarks.md, benchmarks.md");
        assert_eq!(quoted[4], owned[6], "classic-benchmarks.md, benchmarks.md");
    }
    // Two pages have one digit of the ratios of a GET that is sent alone.
    let alone = section(&benchmarks, "## Commands").split("### GET, one at a time").nth(1).unwrap();
    let ratios = &rows(alone, "redis-server")[0][1..4];
    let mut ratios: Vec<f64> = ratios.iter().map(|ratio| ratio.trim_end_matches('†').parse().unwrap()).collect();
    ratios.sort_by(f64::total_cmp);
    let range = format!("{:.1} to {:.1} times", ratios[0], ratios[2]);
    for name in ["performance.md", "is-larder-for-you.md"] {
        let text = page(name).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&range), "{name} does not say that a GET alone takes redis-server {range} as much");
    }
    // A chart of what was measured once has no medians.
    let memory = page("benchmarks/memory.svg");
    assert!(section(&benchmarks, "## Memory per entry").contains("Measured once."));
    assert!(memory.contains("measured once") && !memory.contains("medians"), "benchmarks/memory.svg");
}

/// A figure of the table "In short": the ratio of a server.
fn ratio(page: &str, row: &str, server: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(&format!("| {row} |"))).unwrap();
    let (_, rest) = line.split_once(&format!("{server} ")).unwrap();
    rest.split([',', ' ']).next().unwrap().parse().unwrap()
}

#[test]
fn ratios_of_several_days_hold_those_of_the_page_of_figures() {
    let performance = fs::read_to_string(root().join("docs/performance.md")).unwrap();
    let page = fs::read_to_string(root().join("docs/benchmarks.md")).unwrap();
    let claims = [
        ("redis-server, GET, 16", "GET, 16 at a time", "redis-server"),
        ("nginx, HTTP GET", "HTTP GET, hit", "nginx static"),
    ];
    for (claim, row, server) in claims {
        let line = performance.lines().find(|line| line.starts_with(&format!("| {claim}"))).unwrap();
        let range = line.rsplit('|').nth(1).unwrap().trim();
        let (low, high) = range.split_once(" to ").unwrap();
        let [low, high]: [f64; 2] = [low, high].map(|end| end.parse().unwrap());
        // With one digit.
        let measured = (ratio(&page, row, server) * 10.0).round() / 10.0;
        assert!((low..=high).contains(&measured), "performance.md says {range} for {claim}; benchmarks.md {measured}");
    }
}

#[test]
fn charts_say_when_and_from_which_commit_and_need_no_css() {
    let date = Regex::new(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}[^<]*commit [0-9a-f]{7}").unwrap();
    let mut charts = 0;
    for path in files(&root().join("docs"), "svg") {
        // Drawings, without figures.
        if path.ends_with("larder.svg") || path.ends_with("tour.svg") {
            continue;
        }
        let chart = fs::read_to_string(&path).unwrap();
        assert!(date.is_match(&chart), "{}: no date and commit", path.display());
        // All that only browsers know is the dark scheme.
        let (before, rest) = chart.split_once("<style>@media (prefers-color-scheme: dark) {").unwrap();
        let chart = [before, rest.split_once("</style>").unwrap().1].concat();
        let css = ["var(--", "class=", "<style"].into_iter().find(|part| chart.contains(part));
        assert_eq!(css, None, "{}: colours that only browsers show", path.display());
        charts += 1;
    }
    assert!(charts > 30, "{charts}");
}

#[test]
fn published_figures_name_programs_and_no_paths_of_a_machine() {
    let path = Regex::new(r"(^|[^A-Za-z0-9_.])/(tmp|root|home|work|opt|usr|mnt|dev/shm)/").unwrap();
    let docs = root().join("docs");
    let published = [files(&docs.join("benchmarks"), "jsonl"), files(&docs, "svg"), vec![docs.join("benchmarks.md")]];
    for file in published.concat() {
        let text = fs::read_to_string(&file).unwrap();
        let found = text.lines().zip(1..).find(|(line, _)| path.is_match(line));
        assert_eq!(found.map(|(_, number)| number), None, "{}", file.display());
    }
}
