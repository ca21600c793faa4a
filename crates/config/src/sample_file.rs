//! `larder config sample`: a configuration file in which every setting stands as a comment with its
//! default. It is `deploy/larder.toml`, and the `/etc/larder/larder.toml` of the package.
use super::{
    command_line_flags::without_pages,
    reference_page::{facts, file_line},
    settings_table::{Fallback, SettingSpec, sections},
    wrapped_text::{WIDTH, wrapped_to},
};
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
Larder's configuration. Every line is a comment: Larder runs with the defaults. To change a setting, remove the `#` before its name.

A setting without a default shows an example. Flags and environment variables override this file.

- `larder config check --config FILE` reports errors; `larder config print --config FILE` shows what is in force.
- `larder config diff` shows what a reload would change, and what needs a restart.
- Sizes: 64MiB, 1GB. Durations: 250ms, 10s, 5m, 1h, 1d. `none` switches an optional setting off.

Of Debian's package: `systemctl reload larder` reads this file again. The service may write below /var/lib/larder only.
";

/// Tables follow all settings of the top level, as TOML demands.
const TABLES: &str = "\
# --- Tables ---
#
# A group has entries, a policy and a source of its own.
#[groups.sessions]
#source = \"redis://127.0.0.1:6379/1\"
#max-memory = \"256MiB\"
#ttl = \"1h\"

# Freshness by key prefix. The longest prefix of a key counts.
#[prefixes.\"user:\"]
#ttl = \"10s\"
#stale-if-error = \"1h\"

# A second listener for the Redis protocol, with rules of its own.
#[listeners.operators]
#redis = \"127.0.0.1:6381\"
#forward-admin = true
";

/// The file.
pub fn sample_file() -> String {
    let mut out = String::new();
    comment(INTRODUCTION, &mut out);
    for (title, settings) in sections() {
        let _ = writeln!(out, "\n# --- {title} ---");
        for setting in settings {
            entry(setting, &mut out);
        }
    }
    out + "\n" + TABLES
}

fn entry(setting: &SettingSpec, out: &mut String) {
    out.push('\n');
    comment(&format!("{}\n{}.", without_pages(setting.help), facts(setting)), out);
    let value = match setting.default {
        Fallback::Is(text) => text,
        Fallback::Off | Fallback::Computed(_) => setting.example,
    };
    let _ = writeln!(out, "#{}", file_line(setting, value));
}

fn comment(text: &str, out: &mut String) {
    for line in wrapped_to(text, WIDTH - 2).lines() {
        let _ = writeln!(out, "{}", format!("# {line}").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckedConfig, ConfigInput, Env, Layer, Machine, all_settings, load_config};

    fn loaded(text: &str) -> CheckedConfig {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("larder.toml");
        std::fs::write(&file, text).unwrap();
        let machine = Machine { memory: 4 << 30, cores: 2, ipv6: true };
        load_config(ConfigInput { flags: Layer::new(), file: Some(file), env: Env::new(), machine }).unwrap()
    }

    #[test]
    fn a_default_without_its_comment_sign_is_the_default() {
        let defaults: Vec<String> = all_settings()
            .filter(|setting| matches!(setting.default, Fallback::Is(_)))
            .map(|setting| format!("#{} = ", setting.name))
            .collect();
        let sample = sample_file();
        let (top, _) = sample.split_once("# --- Tables ---").unwrap();
        let uncommented: String = (top.lines())
            .filter(|line| defaults.iter().any(|start| line.starts_with(start)))
            .map(|line| format!("{}\n", &line[1..]))
            .collect();
        assert_eq!(uncommented.lines().count(), defaults.len());
        assert_eq!(loaded(&uncommented).settings, loaded("").settings);
    }

    #[test]
    fn it_names_no_page_of_the_source_code() {
        let cited: Vec<String> =
            sample_file().lines().filter(|line| line.contains("docs/")).map(str::to_owned).collect();
        assert_eq!(cited, [""; 0]);
    }

    #[test]
    fn the_tables_are_examples_that_work() {
        let lines =
            TABLES.lines().filter_map(|line| line.strip_prefix('#')).filter(|line| !line.starts_with([' ', '-']));
        let settings = loaded(&lines.map(|line| format!("{line}\n")).collect::<String>()).settings;
        assert_eq!((settings.groups[1].name.as_str(), settings.groups[0].prefixes.len()), ("sessions", 1));
        assert_eq!(settings.listeners.len(), 1);
    }

    #[test]
    fn the_file_in_deploy_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/larder.toml");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == sample_file(),
            "deploy/larder.toml is out of date. Type: larder config sample > deploy/larder.toml"
        );
    }

    #[test]
    fn every_setting_has_one_line_and_prose_fits() {
        let sample = sample_file();
        // The examples of tables have some of the names again.
        let (top, _) = sample.split_once("# --- Tables ---").unwrap();
        for setting in all_settings() {
            let start = format!("#{} = ", setting.name);
            assert_eq!(top.lines().filter(|line| line.starts_with(&start)).count(), 1, "{start}");
        }
        for line in sample.lines().filter(|line| line.starts_with("# ")) {
            assert!(line.chars().count() <= WIDTH || !line[2..].contains(' '), "{line}");
        }
        assert!(sample.lines().all(|line| line.is_empty() || line.starts_with('#')), "all of it is comments");
    }
}
