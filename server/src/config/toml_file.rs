//! The TOML file: names as in the table at the top level, groups under `[groups.NAME]`; every value keeps its line.
use super::{
    nearest_name::nearest,
    raw_settings::{Layer, RawTable, RawValue, SettingOrigin},
    settings_table::{SettingSpec, TABLE, ValueKind, find},
};
use std::{path::PathBuf, sync::Arc};
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
    pub groups: Vec<RawTable>,
    pub listeners: Vec<RawTable>,
}

/// Kinds of tables with names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tables {
    Groups,
    Listeners,
}
impl Tables {
    fn name(self) -> &'static str {
        match self {
            Tables::Groups => "groups",
            Tables::Listeners => "listeners",
        }
    }
    fn one(self) -> &'static str {
        match self {
            Tables::Groups => "group",
            Tables::Listeners => "listener",
        }
    }
    fn take(self, setting: &SettingSpec) -> bool {
        match self {
            Tables::Groups => setting.per_group,
            Tables::Listeners => setting.per_listener,
        }
    }
}

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
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("groups", DeValue::Table(tables)) => file.groups = reader.tables(Tables::Groups, tables),
            ("listeners", DeValue::Table(tables)) => file.listeners = reader.tables(Tables::Listeners, tables),
            (kind @ ("groups" | "listeners"), _) => {
                let at = reader.origin(key.span().start);
                reader.problems.push(format!("{at}: {kind}: write tables, [{kind}.NAME]"));
            }
            _ => reader.entry(None, key, value, &mut file.top),
        }
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

    fn tables(&mut self, kind: Tables, tables: &DeTable<'_>) -> Vec<RawTable> {
        let mut all = Vec::new();
        let (plural, one) = (kind.name(), kind.one());
        for (key, value) in tables {
            let name: &str = key.get_ref();
            let origin = self.origin(key.span().start);
            let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            if name.is_empty() || name.len() > MAX_TABLE_NAME || !name.chars().all(allowed) {
                self.problems.push(format!(
                    "{origin}: `{name}` cannot name a {one}: take 1 to {MAX_TABLE_NAME} letters, digits, _, - or ."
                ));
            } else if name == "default" && kind == Tables::Groups {
                self.problems.push(format!("{origin}: group default is set at the top level of the file"));
            } else if let DeValue::Table(table) = value.get_ref() {
                let mut layer = Layer::new();
                for (key, value) in table {
                    self.entry(Some((kind, name)), key, value, &mut layer);
                }
                all.push((key.span().start, RawTable { name: name.to_string(), origin, layer }));
            } else {
                self.problems.push(format!("{origin}: {plural}.{name}: write a table, [{plural}.{name}]"));
            }
        }
        all.sort_by_key(|(offset, _)| *offset);
        all.into_iter().map(|(_, table)| table).collect()
    }

    fn entry(
        &mut self,
        table: Option<(Tables, &str)>,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        layer: &mut Layer,
    ) {
        let name: &str = key.get_ref();
        let origin = self.origin(key.span().start);
        let scope = table.map_or(String::new(), |(kind, table)| format!("{}.{table}.", kind.name()));
        match find(name) {
            Some(setting) if table.is_some_and(|(kind, _)| !kind.take(setting)) => {
                let (one, plural) = table.map_or(("", ""), |(kind, _)| (kind.one(), kind.name()));
                self.problems.push(format!(
                    "{origin}: {scope}{name}: {name} is not a {one}'s setting; move it above the first [{plural}.…]"
                ));
            }
            Some(setting) => match texts(setting, value.get_ref()) {
                Ok(texts) => {
                    layer.insert(setting.name, RawValue { texts, origin });
                }
                Err(error) => self.problems.push(format!("{origin}: {scope}{name}: {error}")),
            },
            None => {
                let names = TABLE.iter().filter(|s| table.is_none_or(|(kind, _)| kind.take(s))).map(|s| s.name);
                let tables = [Tables::Groups, Tables::Listeners].map(Tables::name);
                let near = nearest(name, names.chain(tables.into_iter().filter(|_| table.is_none())))
                    .map_or(String::new(), |near| format!(", did you mean {near}?"));
                self.problems.push(format!("{origin}: {scope}{name}: no such setting{near}"));
            }
        }
    }
}

/// The text of a value; what is not a string or a whole number is an error that says what to write.
fn texts(setting: &SettingSpec, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::String(text) if text.is_empty() && setting.many => Ok(Vec::new()),
        DeValue::String(text) => Ok(vec![text.to_string()]),
        DeValue::Boolean(on) if matches!(setting.kind, ValueKind::Switch) => Ok(vec![on.to_string()]),
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
