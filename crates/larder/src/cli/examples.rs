//! Examples at the end of `--help`, one or more for each command.
use super::exit_codes;
use clap::Command;

/// The words after `larder`, and lines to type.
const EXAMPLES: [(&str, &[&str]); 36] = [
    (
        "serve",
        &[
            "larder serve --source redis://127.0.0.1:6379 --max-memory 1GiB",
            "larder serve --source 'https://api.internal/users/{key}' --ttl 10s",
            "larder serve users.csv",
            "larder serve --config /etc/larder/larder.toml",
        ],
    ),
    (
        "get",
        &["larder get user:1", "larder get 127.0.0.1:8080 user:1", "larder get user:1 --url redis://127.0.0.1:6380"],
    ),
    (
        "set",
        &["larder set user:1 Ada --ttl 10m", "larder set 127.0.0.1:8080 user:1 Ada", "larder set page:/ < index.html"],
    ),
    ("del", &["larder del user:1", "larder del user:1 --url redis://127.0.0.1:6380"]),
    ("peers", &["larder peers http://cache-1.internal:8080", "larder peers --key user:1"]),
    ("snapshot info", &["larder snapshot info /var/lib/larder/larder.snap"]),
    ("snapshot verify", &["larder snapshot verify /var/lib/larder/larder.snap --json"]),
    (
        "snapshot convert",
        &["larder snapshot convert dump.rdb larder.snap --skip-others", "larder snapshot convert larder.snap dump.rdb"],
    ),
    ("store verify", &["larder store verify /var/lib/larder/store"]),
    ("store stats", &["larder store stats /var/lib/larder/store"]),
    ("store compact", &["larder store compact /var/lib/larder/store"]),
    ("store backup", &["larder store backup /var/lib/larder/store store.backup"]),
    ("store restore", &["larder store restore store.backup /var/lib/larder/store"]),
    (
        "store load",
        &[
            "larder store load users.csv /var/lib/larder/store --key id --value name",
            "larder store load users.jsonl /var/lib/larder/store --strict",
        ],
    ),
    (
        "table build",
        &[
            "larder table build users.csv -o users.ltab --key id --value name",
            "larder table build changes.jsonl -o users.ltab --base users.ltab",
        ],
    ),
    ("table info", &["larder table info users.ltab"]),
    ("table get", &["larder table get users.ltab 17"]),
    ("table verify", &["larder table verify users.ltab"]),
    ("table dump", &["larder table dump users.ltab --keys"]),
    (
        "copy",
        &[
            "larder copy disk:/var/lib/larder/store cassandra://db1,db2/shop --resume copy.json",
            "larder copy redis://old:6379 redis://new:6379 --rate 20000",
        ],
    ),
    ("health", &["larder health", "larder health http://127.0.0.1:8081 --alive --timeout 2s"]),
    ("status", &["larder status", "larder status http://cache-1.internal:8081 --json"]),
    ("top", &["larder top", "larder top http://cache-1.internal:8081 --interval 5s --count 12"]),
    ("advise", &["larder advise", "larder advise http://cache-1.internal:8081 --hit-ratio 99%"]),
    ("config check", &["larder config check --config larder.toml", "larder config check --ttl 10s --json"]),
    ("config print", &["larder config print --config larder.toml"]),
    ("config convert", &["larder config convert gcache.toml > larder.toml"]),
    ("config diff", &["larder config diff", "larder config diff http://cache-1.internal:8081"]),
    ("config sample", &["larder config sample > larder.toml"]),
    ("config docs", &["larder config docs > configuration.md"]),
    ("completions", &["larder completions bash > /etc/bash_completion.d/larder"]),
    ("man", &["larder man | man -l -", "larder man --out /usr/local/share/man/man1"]),
    ("table", &["larder table build users.csv -o users.ltab", "larder serve users.ltab"]),
    (
        "cassandra schema",
        &[
            "larder cassandra schema cassandra://db/shop | cqlsh db",
            "larder cassandra schema --apply cassandra://db/shop",
        ],
    ),
    ("postgres triggers", &["larder postgres triggers --config larder.toml | psql shop"]),
    ("config", &["larder config sample > larder.toml", "larder config check --config larder.toml"]),
];

/// Adds the examples and the exit codes to the long help. The short help ends with its own notes.
pub(super) fn add(larder: Command) -> Command {
    EXAMPLES.iter().fold(larder, |larder, (words, lines)| with(larder, words, lines))
}

fn with(command: Command, words: &str, lines: &[&str]) -> Command {
    let (word, rest) = words.split_once(' ').map_or((words, None), |(word, rest)| (word, Some(rest)));
    command.mut_subcommand(word, |command| match rest {
        Some(rest) => with(command, rest, lines),
        None => {
            let notes = command.get_after_long_help().or(command.get_after_help()).map(|notes| format!("{notes}\n\n"));
            let text =
                format!("{}Examples:\n  {}\n\n{}", notes.unwrap_or_default(), lines.join("\n  "), exit_codes::help());
            command.after_long_help(text)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command_line::command;

    /// The words of a line as a shell has them, up to a redirection.
    fn words(line: &str) -> Vec<&str> {
        let words = line.split(' ').take_while(|word| !["<", ">", "|"].contains(word));
        words.map(|word| word.trim_matches('\'')).collect()
    }

    #[test]
    fn every_example_is_a_command() {
        for (of, lines) in EXAMPLES {
            assert!(lines.iter().any(|line| line.starts_with(&format!("larder {of}"))), "{of}");
            for line in lines {
                let parsed = command().try_get_matches_from(words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn every_command_has_an_example() {
        fn check(of: &Command, path: &str) {
            let is_group = of.has_subcommands();
            for of in of.get_subcommands().filter(|of| !of.is_hide_set()) {
                check(of, format!("{path} {}", of.get_name()).trim_start());
            }
            let has_one = EXAMPLES.iter().any(|(words, _)| *words == path);
            assert!(is_group || has_one, "larder {path} has no example");
        }
        check(&command(), "");
    }
}
