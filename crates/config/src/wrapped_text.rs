//! Lines of Markdown at the width of the documentation.

/// Columns of a line of prose in `docs`.
pub(super) const WIDTH: usize = 100;

/// Breaks the lines of prose that are longer than 100 columns. Every line of `text` is a paragraph
/// or a list item of its own.
///
/// Code blocks, tables, headings, images and HTML stay as they are. A line never breaks within a
/// code span or a link, nor where the rest would begin another block.
pub fn wrapped(text: &str) -> String {
    wrapped_to(text, WIDTH)
}

/// Like `wrapped`, for lines of `width` columns.
pub(super) fn wrapped_to(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / WIDTH);
    let mut fenced = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fence || fenced || line.starts_with(['|', '#', '!', '<']) || line.chars().count() <= width {
            out.push_str(line);
        } else {
            wrap_line(line, width, &mut out);
        }
        out.push('\n');
    }
    out
}

fn wrap_line(line: &str, limit: usize, out: &mut String) {
    let hang = if line.starts_with("- ") { "  " } else { "" };
    let mut column = 0;
    for word in words(line) {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > limit {
            out.push('\n');
            out.push_str(hang);
            column = hang.len();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
}

/// The parts of a line between which it may break.
fn words(line: &str) -> Vec<&str> {
    let (mut words, mut from) = (Vec::new(), 0);
    let (mut code, mut link) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            '`' => code = !code,
            '[' if !code => link = true,
            // The address of a link has no spaces.
            ']' => link = false,
            ' ' if !code && !link && !begins_block(&line[at + 1..]) => {
                words.push(&line[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    words.push(&line[from..]);
    words
}

/// Whether Markdown takes this at the start of a line for something else than text.
fn begins_block(rest: &str) -> bool {
    let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.starts_with(['-', '+', '*', '#', '>', '|', '=', ' '])
        || (number.len() < rest.len() && number.starts_with(['.', ')']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn code_and_links_are_whole() {
        let code =
            format!("{} `redis-server --port 6379 --save ''` and [a long link](x.md).", "word ".repeat(17).trim_end());
        let text = wrapped(&code);
        assert!(
            text.contains("`redis-server --port 6379 --save ''`") && text.contains("[a long link](x.md)"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 2, "{text}");
        let item = wrapped(&format!("- {}", "word ".repeat(40).trim_end()));
        assert!(item.lines().skip(1).all(|line| line.starts_with("  word")), "{item}");
        for left in ["| a |", "# a", "![a](b)", "```\na"] {
            let long = format!("{left}{}\n", " word".repeat(40));
            assert_eq!(wrapped(&long), long);
        }
    }

    proptest! {
        #[test]
        fn words_stay_and_lines_end_in_time(line in "(- )?([a-z`\\[\\]*.1-]{1,30} ){1,40}[a-z]{1,9}") {
            prop_assume!(!line.starts_with("```"));
            let text = wrapped(&line);
            let flat = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(flat(&text), flat(&line));
            for line in text.lines() {
                prop_assert!(line.chars().count() <= WIDTH || words(line.trim_start()).len() == 1, "{}", line);
            }
        }
    }
}
