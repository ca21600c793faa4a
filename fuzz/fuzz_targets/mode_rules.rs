//! The text of mode rules: any text is rules or an error; rules that are written read back as the same, and the longest prefix of a key counts.
//!
//! The parser is in files of the server; these alone are built with it.
#![no_main]
#![allow(dead_code, reason = "the server uses the rest")]
use larder_config::TierMode;
use libfuzzer_sys::fuzz_target;
use mode_rules::{ModeRules, ModeTable, mode_rules_text, parse_mode_rules};

#[path = "../../crates/source/src/mode_rules.rs"]
mod mode_rules;
#[path = "../../crates/source/src/prefix_table.rs"]
mod prefix_table;

fuzz_target!(|input: (&str, Vec<(&[u8], bool)>, &[u8])| {
    let (text, own, key) = input;
    let of_text = parse_mode_rules(text).unwrap_or_default();
    let modes = own.iter().map(|(prefix, denies)| {
        ((*prefix).into(), if *denies { TierMode::Deny } else { TierMode::Observe })
    });
    for rules in [of_text, modes.take(1024).collect()] {
        let table = ModeTable::new(rules.iter().cloned());
        let written = mode_rules_text(&table);
        let read = parse_mode_rules(&written).expect("what is written can be read");
        assert_eq!(mode_rules_text(&ModeTable::new(read)), written);
        let longest = rules.iter().filter(|(prefix, _)| key.starts_with(prefix)).map(|(prefix, _)| prefix.len()).max();
        let last = rules.iter().rev().find(|(prefix, _)| Some(prefix.len()) == longest && key.starts_with(prefix));
        let all = ModeRules::default();
        all.replace(rules.clone());
        assert_eq!(all.of(key), last.map(|(_, mode)| *mode).unwrap_or_default());
    }
});
