//! Reads the text of a setting as the table's kind says.
use super::{
    machine_limits::Machine,
    nearest_name::{nearest, usual_name},
    secret::Secret,
    setting_value::{Percent, SettingValue, Size, Span},
    settings_table::{SettingSpec, ValueKind},
};
use larder_units::{parse_duration, parse_size, show_duration, show_size};
use std::time::Duration;

/// Reads one value; the error says what is wrong with the text and what would be right.
pub(super) fn parse(setting: &SettingSpec, text: &str, machine: &Machine) -> Result<SettingValue, String> {
    if text.is_empty() {
        return Err("is empty: leave it out for the default".to_string());
    }
    let is_a_choice = match setting.kind {
        ValueKind::Choice(names) => names.iter().any(|name| name.eq_ignore_ascii_case(usual_name(text))),
        ValueKind::Switch => true,
        _ => false,
    };
    if !setting.optional && is_off(text) && !is_a_choice {
        return Err(format!("cannot be `{text}`"));
    }
    match setting.kind {
        ValueKind::Size { min, max } => within(parse_size(text)?, min, max, show_size).map(Size).map(SettingValue::new),
        ValueKind::Memory { min } => {
            let bytes = match text.strip_suffix('%') {
                Some(share) => {
                    let share = within(count(share.trim_end(), text)?, 1, 100, |n| format!("{n}%"))?;
                    let bytes = u128::from(machine.memory) * u128::from(share) / 100;
                    // Whole MiB read better. A share of at most 100 % fits what the memory itself fits.
                    (bytes as u64) >> 20 << 20
                }
                None => parse_size(text)?,
            };
            within(bytes, min, usize::MAX as u64, show_size).map(Size).map(SettingValue::new)
        }
        ValueKind::Count { min, max } => within(count(text, text)?, min, max, |n| n.to_string()).map(SettingValue::new),
        ValueKind::Percent { max } => {
            let number = text.strip_suffix('%').unwrap_or(text).trim_end();
            within(count(number, text)?, 0, max, |n| format!("{n}%")).map(Percent).map(SettingValue::new)
        }
        ValueKind::Duration { min, max } => {
            // Zero needs no unit, also where it is an error.
            let millis = match text {
                "0" => 0,
                text => parse_duration(text)?.as_millis() as u64,
            };
            let show = |millis| show_duration(Duration::from_millis(millis));
            let none = if setting.optional && millis == 0 { ", or `none`" } else { "" };
            let millis = within(millis, min, max, show).map_err(|error| error + none)?;
            Ok(SettingValue::new(Span(Duration::from_millis(millis))))
        }
        ValueKind::Path | ValueKind::Text => Ok(SettingValue::new(text.to_owned())),
        ValueKind::Secret => Ok(SettingValue::new(Secret::from(text))),
        ValueKind::Switch => {
            switch(text).map(SettingValue::new).ok_or_else(|| format!("`{text}` is not true or false"))
        }
        ValueKind::Choice(names) => match names.iter().find(|n| n.eq_ignore_ascii_case(usual_name(text))) {
            Some(name) => Ok(SettingValue::new(name.to_string())),
            None => {
                let near = nearest(text, names.iter().copied())
                    .map_or(String::new(), |near| format!(", did you mean {near}?"));
                Err(format!("`{text}` is not one of {}{near}", names.join(", ")))
            }
        },
        ValueKind::Form(form) => (form.read)(text, machine),
    }
}

/// `true` or `false`, or a word that means one of them.
fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// The words that switch a setting off.
pub(super) fn is_off(text: &str) -> bool {
    text.eq_ignore_ascii_case("none") || text.eq_ignore_ascii_case("off")
}

fn count(number: &str, whole: &str) -> Result<u64, String> {
    match number.bytes().all(|b| b.is_ascii_digit()) && !number.is_empty() {
        true => number.parse().map_err(|_| format!("`{whole}` is too large")),
        false => Err(format!("`{whole}` is not a whole number")),
    }
}

fn within(n: u64, min: u64, max: u64, show: impl Fn(u64) -> String) -> Result<u64, String> {
    if n < min {
        Err(format!("{} is too small: the least is {}", show(n), show(min)))
    } else if n > max {
        Err(format!("{} is too large: the most is {}", show(n), show(max)))
    } else {
        Ok(n)
    }
}
