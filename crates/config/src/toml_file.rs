//! The TOML file: names as in the table at the top level, groups under `[groups.NAME]`, key
//! prefixes under `[prefixes."PREFIX"]`; every value keeps its line.
use super::{
    effective_values::{NamedTable, prefix},
    key_length::MAX_KEY,
    nearest_name::nearest,
    raw_settings::{Layer, RawTable, RawValue, SettingOrigin},
    removed_settings::removed,
    settings_table::{SettingSpec, all_settings, find},
};
use std::{borrow::Cow, path::PathBuf, sync::Arc};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Longest name of a group or listener: it appears in routes and labels.
const MAX_TABLE_NAME: usize = 64;

/// What a file sets.
#[derive(Debug, Default)]
pub(super) struct TomlFile {
    pub top: Layer,
    pub prefixes: Vec<RawTable>,
    pub groups: Vec<RawTable>,
    pub listeners: Vec<RawTable>,
}

const GROUPS: &str = "groups";
const LISTENERS: &str = "listeners";
const PREFIXES: &str = "prefixes";

type Entry<'k, 't, 's> = (&'k Spanned<Cow<'t, str>>, &'k Spanned<DeValue<'s>>);

/// Reads a file's text.
pub(super) fn read(path: PathBuf, text: &str, problems: &mut Vec<String>) -> TomlFile {
    let mut reader = Reader { path: Arc::new(path), text, problems };
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let at = reader.origin(error.span().map_or(0, |span| span.start));
            reader.problems.push(format!("{at}: {}", error.message()));
            return Default::default();
        }
    };
    let mut file = TomlFile::default();
    for (key, value) in table.get_ref() {
        let kind: &str = key.get_ref();
        let into = match kind {
            GROUPS => &mut file.groups,
            LISTENERS => &mut file.listeners,
            PREFIXES => &mut file.prefixes,
            _ => {
                reader.entry(None, (key, value), &mut file.top);
                continue;
            }
        };
        *into = reader.tables((key, value), kind, &|name| match kind {
            GROUPS => NamedTable::Group(name),
            LISTENERS => NamedTable::Listener(name),
            _ => NamedTable::Prefix(None, name),
        });
    }
    file
}

struct Reader<'a> {
    path: Arc<PathBuf>,
    text: &'a str,
    problems: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn origin(&self, offset: usize) -> SettingOrigin {
        let line = 1 + self.text.as_bytes()[..offset].iter().filter(|b| **b == b'\n').count();
        SettingOrigin::File { path: self.path.clone(), line }
    }

    /// The tables under `whole`, in the order of the file.
    fn tables(
        &mut self,
        (key, value): Entry<'_, '_, '_>,
        whole: &str,
        table: &dyn Fn(String) -> NamedTable,
    ) -> Vec<RawTable> {
        let DeValue::Table(tables) = value.get_ref() else {
            let what = if whole.ends_with(PREFIXES) { "\"PREFIX\"" } else { "NAME" };
            let at = self.origin(key.span().start);
            self.problems.push(format!("{at}: {whole}: write tables, [{whole}.{what}]"));
            return Vec::new();
        };
        let mut all = Vec::new();
        for (key, value) in tables {
            let name: &str = key.get_ref();
            let origin = self.origin(key.span().start);
            let table = table(name.to_string());
            if let Some(problem) = name_problem(&table, name) {
                self.problems.push(format!("{origin}: {problem}"));
            } else if let DeValue::Table(entries) = value.get_ref() {
                let mut read = RawTable { name: name.to_string(), origin, layer: Layer::new(), prefixes: Vec::new() };
                for entry in entries {
                    if matches!(table, NamedTable::Group(_)) && entry.0.get_ref() == PREFIXES {
                        let within = format!("{}.{PREFIXES}", table.path());
                        let of_group = |prefix| NamedTable::Prefix(Some(name.to_string()), prefix);
                        read.prefixes = self.tables(entry, &within, &of_group);
                    } else {
                        self.entry(Some(&table), entry, &mut read.layer);
                    }
                }
                all.push((key.span().start, read));
            } else {
                let path = table.path();
                self.problems.push(format!("{origin}: {path}: write a table, [{path}]"));
            }
        }
        all.sort_by_key(|(offset, _)| *offset);
        all.into_iter().map(|(_, table)| table).collect()
    }

    fn entry(&mut self, table: Option<&NamedTable>, (key, value): Entry<'_, '_, '_>, layer: &mut Layer) {
        let name: &str = key.get_ref();
        let origin = self.origin(key.span().start);
        let scope = prefix(table);
        match (find(name), table) {
            (Some(setting), Some(table)) if !table.takes(setting) => {
                let advice = match table {
                    NamedTable::Group(_) => "a group's setting; move it above the first [groups.…]",
                    NamedTable::Listener(_) => "a listener's setting; move it above the first [listeners.…]",
                    NamedTable::Prefix(..) => "a prefix's setting; move it to the prefix's group",
                };
                self.problems.push(format!("{origin}: {scope}{name}: {name} is not {advice}"));
            }
            (Some(setting), _) => match texts(setting, value.get_ref()) {
                Ok(texts) => {
                    layer.insert(setting.name, RawValue { texts, origin });
                }
                Err(error) => self.problems.push(format!("{origin}: {scope}{name}: {error}")),
            },
            (None, _) if removed(name).is_some() => {
                let problem = removed(name).unwrap_or_default();
                self.problems.push(format!("{origin}: {scope}{problem}"));
            }
            (None, _) => {
                let names = all_settings().filter(|s| table.is_none_or(|table| table.takes(s))).map(|s| s.name);
                let tables: &[&str] = match table {
                    None => &[GROUPS, LISTENERS, PREFIXES],
                    Some(NamedTable::Group(_)) => &[PREFIXES],
                    Some(NamedTable::Listener(_) | NamedTable::Prefix(..)) => &[],
                };
                let near = nearest(name, names.chain(tables.iter().copied()))
                    .map_or(String::new(), |near| format!(", did you mean {near}?"));
                self.problems.push(format!("{origin}: {scope}{name}: no such setting{near}"));
            }
        }
    }
}

/// Why a table cannot have this name.
fn name_problem(table: &NamedTable, name: &str) -> Option<String> {
    let one = match table {
        NamedTable::Prefix(..) if name.is_empty() => {
            return Some(format!("{}: an empty prefix means the whole group: set it there", table.path()));
        }
        NamedTable::Prefix(..) => {
            return (name.len() > MAX_KEY as usize)
                .then(|| format!("a prefix of {} bytes is too long: no key has more than {MAX_KEY}", name.len()));
        }
        NamedTable::Group(_) if name == "default" => {
            return Some("group default is set at the top level of the file".to_string());
        }
        NamedTable::Group(_) => "group",
        NamedTable::Listener(_) => "listener",
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_good = !name.is_empty() && name.len() <= MAX_TABLE_NAME && name.chars().all(allowed);
    let rule = format!("take 1 to {MAX_TABLE_NAME} letters, digits, _, - or .");
    (!is_good).then(|| format!("`{name}` cannot name a {one}: {rule}"))
}

/// The text of a value; what is not a string or a whole number is an error that says what to write.
fn texts(setting: &SettingSpec, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::String(text) if text.is_empty() && setting.many => Ok(Vec::new()),
        DeValue::String(text) => Ok(vec![text.to_string()]),
        DeValue::Boolean(on) if setting.kind.takes_bool() => Ok(vec![on.to_string()]),
        DeValue::Integer(n) if n.radix() == 10 => Ok(vec![n.as_str().replace('_', "")]),
        DeValue::Array(values) if setting.many => {
            let mut all = Vec::new();
            for value in values.iter() {
                match value.get_ref() {
                    DeValue::String(text) => all.push(text.to_string()),
                    other => return Err(format!("each value is a string, not {}", article(other))),
                }
            }
            Ok(all)
        }
        DeValue::Array(_) => Err("takes one value, not an array".to_string()),
        other => Err(format!("write a string such as \"{}\", not {}", setting.example, article(other))),
    }
}

fn article(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(_) => "an integer".to_string(),
        DeValue::Array(_) => "an array".to_string(),
        other => format!("a {}", other.type_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        read("l.toml".into(), text, &mut problems);
        problems
    }

    #[test]
    fn values_keep_their_lines() {
        let mut problems = Vec::new();
        let text = "# first\nmax-keys = 1_000\nhttp = [\":1\",\n \":2\"]\nredis = \"\"\n\n[groups.b]\nmax-memory = \"1GiB\"\n[groups.a]\nttl = '1s'\n";
        let TomlFile { top, groups, .. } = read("l.toml".into(), text, &mut problems);
        assert_eq!(problems, [""; 0]);
        let shown = |layer: &Layer| -> Vec<String> {
            layer.iter().map(|(name, v)| format!("{} {name}={}", v.origin, v.texts.join("|"))).collect()
        };
        assert_eq!(shown(&top), ["l.toml:3 http=:1|:2", "l.toml:2 max-keys=1000", "l.toml:5 redis="]);
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].name.as_str(), groups[1].name.as_str()), ("b", "a"));
        assert_eq!(groups[0].origin.to_string(), "l.toml:7");
        assert_eq!(shown(&groups[0].layer), ["l.toml:8 max-memory=1GiB"]);
        assert_eq!(shown(&groups[1].layer), ["l.toml:10 ttl=1s"]);
    }

    #[test]
    fn prefixes_of_groups() {
        let mut problems = Vec::new();
        let text = "[prefixes.\"b.c:\"]\nttl = '1s'\n[groups.x]\nttl = '2s'\n[groups.x.prefixes.'é\"']\nmode = 'deny'\n[prefixes.a]\n";
        let TomlFile { prefixes, groups, .. } = read("l.toml".into(), text, &mut problems);
        assert_eq!(problems, [""; 0]);
        let shown = |table: &RawTable| format!("{} {} {}", table.origin, table.name, table.layer.len());
        assert_eq!(prefixes.iter().map(shown).collect::<Vec<_>>(), ["l.toml:1 b.c: 1", "l.toml:7 a 0"]);
        assert_eq!(groups[0].prefixes.iter().map(shown).collect::<Vec<_>>(), ["l.toml:5 é\" 1"]);
    }

    #[test]
    fn problems_name_the_line() {
        for (text, expected) in [
            ("\nmax_memory = 1", "l.toml:2: max_memory: no such setting, did you mean max-memory?"),
            ("group.a.ttl = '1s'", "l.toml:1: group: no such setting, did you mean groups?"),
            ("[server]\nhttp = ':1'", "l.toml:1: server: no such setting"),
            ("[groups.a]\ntll = '1s'", "l.toml:2: groups.a.tll: no such setting, did you mean ttl?"),
            (
                "[groups.a]\nhttp = ':1'",
                "l.toml:2: groups.a.http: http is not a group's setting; move it above the first [groups.…]",
            ),
            ("[groups.default]", "l.toml:1: group default is set at the top level of the file"),
            ("[groups.'a b']", "l.toml:1: `a b` cannot name a group: take 1 to 64 letters, digits, _, - or ."),
            ("groups.a = 1", "l.toml:1: groups.a: write a table, [groups.a]"),
            (
                "[groups.a.prefixes.'user:']\nttk = '1s'",
                "l.toml:2: groups.a.prefixes.\"user:\".ttk: no such setting, did you mean ttl?",
            ),
            ("[groups.a]\nprefixs.x.ttl = '1s'", "l.toml:2: groups.a.prefixs: no such setting, did you mean prefixes?"),
            ("[prefix.a]", "l.toml:1: prefix: no such setting, did you mean prefixes?"),
            ("prefixes = 1", "l.toml:1: prefixes: write tables, [prefixes.\"PREFIX\"]"),
            ("prefixes.a = 1", "l.toml:1: prefixes.\"a\": write a table, [prefixes.\"a\"]"),
            (
                "[prefixes.'']\nttl = '1s'",
                "l.toml:1: prefixes.\"\": an empty prefix means the whole group: set it there",
            ),
            (
                "[prefixes.a]\nttl-jitter = 5",
                "l.toml:2: prefixes.\"a\".ttl-jitter: ttl-jitter is not a prefix's setting; move it to the prefix's group",
            ),
            ("groups = 1", "l.toml:1: groups: write tables, [groups.NAME]"),
            ("ttl = true", "l.toml:1: ttl: write a string such as \"10s\", not a boolean"),
            ("ttl = 1.5", "l.toml:1: ttl: write a string such as \"10s\", not a float"),
            ("max-keys = 0x10", "l.toml:1: max-keys: write a string such as \"1000\", not an integer"),
            ("ttl = ['1s']", "l.toml:1: ttl: takes one value, not an array"),
            ("http = [1]", "l.toml:1: http: each value is a string, not an integer"),
        ] {
            assert_eq!(problems(text), [expected], "{text}");
        }
        let twice = problems("ttl = '1s'\nttl = '2s'");
        assert!(twice.len() == 1 && twice[0].starts_with("l.toml:2: "), "{twice:?}");
        let broken = problems("ttl = '1s'\n\nhttp = [");
        assert!(broken.len() == 1 && broken[0].starts_with("l.toml:3: "), "{broken:?}");
    }
}
