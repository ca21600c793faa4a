//! What deny.toml says of licences, versions, banned crates and sources, checked with `cargo
//! metadata` alone: `cargo deny` is not on every machine, and takes minutes to build.
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};
use toml::de::{DeTable, DeValue};

/// A crate that a build for one of the targets in deny.toml uses.
struct Crate {
    name: String,
    version: String,
    licence: String,
    /// `None`: a crate of the workspace.
    source: Option<String>,
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn rules() -> Value {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let table = DeTable::parse(&text).unwrap_or_else(|error| panic!("deny.toml: {error}"));
    json(&DeValue::Table(table.into_inner()))
}

/// As JSON, which is easier to look into.
fn json(value: &DeValue) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let fields = table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())));
            Value::Object(fields.collect())
        }
        // Numbers and such: no rule has them.
        _ => Value::Null,
    }
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

/// All crates but those of other targets, by `name version`.
fn crates(rules: &Value) -> BTreeMap<String, Crate> {
    let mut found = BTreeMap::new();
    for target in strings(&rules["graph"]["targets"]) {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked", "--all-features", "--filter-platform", target])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let used: BTreeSet<&str> =
            metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
        for package in metadata["packages"].as_array().unwrap() {
            let text = |field: &str| package[field].as_str().map(str::to_owned);
            let (name, version) = (text("name").unwrap(), text("version").unwrap());
            if used.contains(package["id"].as_str().unwrap()) {
                let licence = text("license").unwrap_or_default();
                let source = text("source");
                found.insert(format!("{name} {version}"), Crate { name, version, licence, source });
            }
        }
    }
    assert!(found.len() > 100, "{} crates", found.len());
    found
}

/// Whether an SPDX expression is satisfied by licences that `allowed` accepts. `OR` binds less than
/// `AND`; the old `/` is `OR`.
fn satisfied(expression: &str, allowed: &mut dyn FnMut(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let is = any_of(&mut rest, allowed);
    assert!(rest.is_empty(), "`{expression}` is not understood");
    is
}
fn any_of(words: &mut &[&str], allowed: &mut dyn FnMut(&str) -> bool) -> bool {
    let mut is = all_of(words, allowed);
    while let ["OR", rest @ ..] = words {
        *words = rest;
        is |= all_of(words, allowed);
    }
    is
}
fn all_of(words: &mut &[&str], allowed: &mut dyn FnMut(&str) -> bool) -> bool {
    let mut is = one(words, allowed);
    while let ["AND", rest @ ..] = words {
        *words = rest;
        is &= one(words, allowed);
    }
    is
}
fn one(words: &mut &[&str], allowed: &mut dyn FnMut(&str) -> bool) -> bool {
    match words {
        ["(", rest @ ..] => {
            *words = rest;
            let is = any_of(words, allowed);
            assert_eq!(words.first(), Some(&")"));
            *words = &words[1..];
            is
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            allowed(&format!("{licence} WITH {exception}"))
        }
        [licence, rest @ ..] => {
            *words = rest;
            allowed(licence)
        }
        [] => false,
    }
}

#[test]
fn licences_are_those_that_deny_toml_allows() {
    let rules = rules();
    let allow = strings(&rules["licenses"]["allow"]);
    let exceptions = rules["licenses"]["exceptions"].as_array().unwrap();
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for (id, one) in crates(&rules) {
        let excepted: Vec<&str> = exceptions
            .iter()
            .filter(|rule| rule["crate"].as_str() == Some(&one.name))
            .flat_map(|rule| strings(&rule["allow"]))
            .collect();
        let mut allowed = |licence: &str| {
            used.insert(licence.to_owned());
            allow.contains(&licence) || excepted.contains(&licence)
        };
        if !satisfied(&one.licence, &mut allowed) {
            wrong.push(format!("{id}: {:?}", one.licence));
        }
    }
    assert!(wrong.is_empty(), "licences that deny.toml does not allow: {wrong:#?}");
    let unused: Vec<_> = allow.iter().filter(|licence| !used.contains(**licence)).collect();
    assert!(unused.is_empty(), "deny.toml allows licences that no crate has: {unused:?}");
}

#[test]
fn there_is_one_version_of_each_crate_and_none_is_banned() {
    let rules = rules();
    let bans = &rules["bans"];
    let matches = |rule: &Value, one: &Crate| {
        let text = rule["crate"].as_str().unwrap();
        let (name, version) = text.split_once('@').unwrap_or((text, ""));
        let exact = one.version.strip_prefix(version);
        name == one.name && exact.is_some_and(|rest| version.is_empty() || rest.is_empty() || rest.starts_with('.'))
    };
    let is_in = |list: &str, one: &Crate| bans[list].as_array().unwrap().iter().any(|rule| matches(rule, one));
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (id, one) in crates(&rules) {
        assert!(!is_in("deny", &one), "deny.toml bans {id}");
        assert!(
            one.source.as_deref().is_none_or(|source| source.contains("github.com/rust-lang/crates.io-index")),
            "{id} comes from {:?}",
            one.source
        );
        if !is_in("skip", &one) {
            versions.entry(one.name).or_default().push(one.version);
        }
    }
    let several: Vec<_> = versions.iter().filter(|(_, versions)| versions.len() > 1).collect();
    assert!(several.is_empty(), "several versions of a crate, without a reason in deny.toml: {several:?}");
}

#[test]
fn expressions_of_licences() {
    for (expression, is) in [
        ("A", true),
        ("B", false),
        ("", false),
        ("A OR B", true),
        ("A/B", true),
        ("A AND B", false),
        ("(B OR A) AND A", true),
        ("B AND A OR A", true),
        ("A AND (B OR C)", false),
        ("A WITH x", false),
    ] {
        assert_eq!(satisfied(expression, &mut |licence| licence == "A"), is, "{expression}");
    }
}
