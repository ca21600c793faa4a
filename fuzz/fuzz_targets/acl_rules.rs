//! The rules of a user, from ACL SETUSER or the users file: any words are applied or refused; what is shown of a user makes the same user again;
//! and who may nothing gets nothing.
//!
//! The parser is in files of the server; these alone are built with it.
#![no_main]
#![allow(dead_code, reason = "the server uses the rest")]
use command_catalog::{CatalogRow, CommandCatalog};
use larder_config::Categories;
use libfuzzer_sys::fuzz_target;
use name_pattern::KeyAccess;
use permissions::{Beyond, TouchedKey};
use user::User;

#[path = "../../crates/base/src/identity/command_catalog.rs"]
mod command_catalog;
#[path = "../../crates/base/src/identity/command_request.rs"]
mod command_request;
#[path = "../../crates/base/src/identity/command_rules.rs"]
mod command_rules;
#[path = "../../crates/base/src/identity/name_pattern.rs"]
mod name_pattern;
#[path = "../../crates/base/src/identity/passwords.rs"]
mod passwords;
#[path = "../../crates/base/src/identity/permissions.rs"]
mod permissions;
#[path = "../../crates/base/src/identity/rule_error.rs"]
mod rule_error;
#[path = "../../crates/base/src/identity/selector.rs"]
mod selector;
#[path = "../../crates/base/src/identity/user.rs"]
mod user;
// The numbers by command, which name a class for each, are not part of this.
mod telemetry {
    pub enum CommandClass {
        Read,
        Write,
        Forwarded,
        Other,
    }
}

const COMMANDS: [(&str, &str); 6] = [
    ("get", "read"),
    ("set", "write"),
    ("config", "admin"),
    ("config|get", "admin"),
    ("select", "connection"),
    ("keys", "dangerous"),
];

fn catalog() -> CommandCatalog {
    CommandCatalog::new(COMMANDS.map(|(name, category)| CatalogRow {
        name,
        categories: Categories::named(category).expect("a category"),
        is_always_allowed: false,
    }))
}

/// What a user may do with some commands and keys.
fn answers(user: &User, catalog: &CommandCatalog) -> Vec<bool> {
    let names = COMMANDS.iter().map(|(name, _)| *name).chain(["hgetall", "config|set", "module.command"]);
    let mut all = Vec::new();
    for name in names {
        for key in [&b"a"[..], b"ab", b"user:1", b""] {
            for access in [KeyAccess::NONE, KeyAccess::READ, KeyAccess::WRITE, KeyAccess::BOTH] {
                let keys = std::iter::once(TouchedKey { key, access, position: 1 });
                let request = catalog.request(name);
                all.push(user.permissions().check(&request, keys, std::iter::empty(), Beyond::Nothing).is_ok());
            }
        }
    }
    all
}

fuzz_target!(|text: Vec<u8>| {
    let catalog = catalog();
    let words: Vec<&[u8]> =
        text.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()).take(64).collect();
    // A hash of argon2 may ask for as much memory as its rule allows; only its form is of interest here.
    let nobody = User::new("u", &catalog);
    assert!(answers(&nobody, &catalog).iter().all(|allowed| !allowed));
    let Ok(user) = nobody.changed(&words, &catalog) else { return };
    let line = user.line();
    let mut shown = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).skip(2);
    let again: Vec<&[u8]> = shown.by_ref().collect();
    let again = nobody.changed(&again, &catalog).expect("what is shown can be read");
    assert_eq!(String::from_utf8_lossy(&again.line()), String::from_utf8_lossy(&line));
    assert_eq!(answers(&again, &catalog), answers(&user, &catalog));
    // Without commands a user may nothing, whatever its keys.
    let none = user.changed(&[&b"clearselectors"[..], b"-@all"], &catalog).expect("rules");
    assert!(answers(&none, &catalog).iter().all(|allowed| !allowed));
});
