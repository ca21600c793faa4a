//! `docs/tour.svg`: the tour of README as a recording of a terminal. What it shows is real, because
//! the acceptance tests run the same blocks and compare what they print.
use std::{fmt::Write as _, fs, path::Path};

const WIDTH: usize = 760;
const LINE: usize = 21;
const LEFT: usize = 20;
/// Columns of the terminal.
const COLUMNS: usize = 84;
/// Between two commands, and how long the end stands: seconds.
const STEP: f64 = 1.5;
const END: f64 = 5.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Comment,
    Command,
    Output,
}

/// The lines of the terminal. A command prints one line, but for the one that stops Redis.
fn session(tour: &str) -> Vec<(Kind, String)> {
    let mut lines = Vec::new();
    let mut commands = Vec::new();
    let mut prose = String::new();
    let mut open = None;
    for line in tour.lines() {
        match (line.strip_prefix("```"), open) {
            (Some(kind), None) => {
                open = Some(kind);
                if kind.starts_with("sh") {
                    lines.push((Kind::Comment, format!("# {}", prose.trim().trim_end_matches(':'))));
                }
            }
            (Some(_), Some(kind)) => {
                open = None;
                prose.clear();
                // The output of the others follows.
                if kind == "sh server" {
                    lines.extend(commands.drain(..).map(|command| (Kind::Command, command)));
                }
                assert!(kind != "text" || commands.is_empty(), "a command prints nothing: {commands:?}");
            }
            (None, Some("sh" | "sh server")) => commands.push(format!("$ {}", line.trim_end_matches("; echo"))),
            (None, Some("text")) => {
                let silent = usize::from(commands[0].contains("SHUTDOWN"));
                lines.extend(commands.drain(..=silent).map(|command| (Kind::Command, command)));
                lines.push((Kind::Output, line.to_owned()));
            }
            (None, Some(_)) => {}
            // The last sentence before a block.
            (None, None) if line.is_empty() => {}
            (None, None) => {
                let text = format!("{prose} {line}");
                prose = text.rsplit(". ").next().unwrap_or_default().to_owned();
            }
        }
    }
    lines
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The recording: each line appears at its time, over and over. Without CSS, or for readers who want
/// no motion, all lines are there.
fn recording(lines: &[(Kind, String)]) -> String {
    let commands = lines.iter().filter(|(kind, _)| *kind == Kind::Command).count();
    let whole = commands as f64 * STEP + END;
    let height = LINE * lines.len() + 56;
    let (mut style, mut text) = (String::new(), String::new());
    let mut at = 0.0;
    for (number, (kind, line)) in lines.iter().enumerate() {
        assert!(line.chars().count() <= COLUMNS, "too long for the terminal: {line}");
        let start = 100.0 * at / whole;
        let _ =
            write!(style, "@keyframes l{number}{{0%,{start:.1}%{{opacity:0}}{:.1}%,100%{{opacity:1}}}}", start + 0.1);
        let y = LINE * number + 58;
        let colour = match kind {
            Kind::Comment => "#8b949e",
            Kind::Command => "#e6edf3",
            Kind::Output => "#7ee787",
        };
        let _ = writeln!(
            text,
            "<text x=\"{LEFT}\" y=\"{y}\" fill=\"{colour}\" style=\"animation:l{number} {whole}s infinite\">{}</text>",
            escape(line)
        );
        at += match kind {
            Kind::Comment => 0.0,
            Kind::Command => STEP / 3.0,
            Kind::Output => STEP * 2.0 / 3.0,
        };
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <title>Reads and writes through Larder in front of Redis, before and after Redis is stopped</title>\n\
         <style>@media (prefers-reduced-motion:reduce){{text{{animation:none!important}}}}{style}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"10\" fill=\"#0d1117\"/>\n\
         <g fill=\"#484f58\"><circle cx=\"24\" cy=\"20\" r=\"6\"/><circle cx=\"44\" cy=\"20\" r=\"6\"/><circle cx=\"64\" cy=\"20\" r=\"6\"/></g>\n\
         <g xml:space=\"preserve\">\n{text}</g>\n</svg>\n"
    )
}

#[test]
fn the_recording_shows_the_tour_of_the_readme() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let tour = readme.split("\n## Tour\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let lines = session(tour);
    assert!(lines.len() > 15, "{lines:?}");
    let wanted = recording(&lines);
    let file = root.join("docs/tour.svg");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, &wanted).unwrap();
    }
    let hint = "docs/tour.svg is stale. Type: UPDATE_DOCS=1 cargo test --workspace --test layers recording";
    assert!(fs::read_to_string(file).is_ok_and(|svg| svg == wanted), "{hint}");
}

#[test]
fn a_command_is_shown_with_its_output() {
    let lines = session("Ask\nRedis. Twice:\n\n```sh\na\nb\n```\n\n```text\n1\n2\n```\n");
    let shown: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(shown, ["# Twice", "$ a", "1", "$ b", "2"]);
    assert_eq!(session("Stop:\n\n```sh\nSHUTDOWN\nc\n```\n\n```text\n3\n```\n").len(), 4);
}
