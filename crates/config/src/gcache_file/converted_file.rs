//! Writes the configuration file that a conversion makes: settings as the table of settings has them,
//! and comments.
use crate::{
    effective_values::quote,
    settings_table::{SettingSpec, ValueKind, find},
};
use std::fmt::Write as _;

/// The lines so far.
#[derive(Default)]
pub(super) struct ConvertedFile(String);

impl ConvertedFile {
    /// The whole file.
    pub(super) fn text(self) -> String {
        self.0
    }

    pub(super) fn line(&mut self, text: &str) {
        let _ = writeln!(self.0, "{text}");
    }

    pub(super) fn comment(&mut self, text: &str) {
        self.line(&format!("# {text}"));
    }

    /// Names what the next lines come from.
    pub(super) fn from(&mut self, table: &str, keys: &str) {
        self.line("");
        self.comment(&format!("[{table}] {keys}"));
    }

    pub(super) fn set(&mut self, name: &str, texts: &[String]) {
        match find(name) {
            Some(setting) => self.line(&format!("{name} = {}", toml_value(setting, texts))),
            // A setting that this version does not have.
            None => {
                self.comment(&format!("{name} = {} (this version of Larder has no such setting)", texts.join(", ")))
            }
        }
    }
}

fn toml_value(setting: &SettingSpec, texts: &[String]) -> String {
    let one = |text: &String| match setting.kind {
        ValueKind::Count { .. } | ValueKind::Switch => text.clone(),
        _ => quote(text),
    };
    match setting.many {
        true => format!("[{}]", texts.iter().map(one).collect::<Vec<_>>().join(", ")),
        false => texts.iter().map(one).collect(),
    }
}
