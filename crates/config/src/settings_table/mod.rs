//! The table of settings: what feeds flags, environment, file, help, documentation and `config
//! print`. A file for each section.
//!
//! To add a setting: a row in the file of its section, a field in
//! [`Settings`](super::settings::Settings), and the line in `fill_settings.rs` that fills it. Tests
//! fail until all agree.

/// The rows of a section: `"name": KIND => DEFAULT, FIELD, FIELD(VALUE);` below the help, which is
/// its documentation comment. The fields are those of [`SettingSpec`].
macro_rules! settings {
    ($section:expr; $(
        $(#[doc = $help:literal])+
        $name:literal: $kind:expr => $default:expr $(, $field:ident $(($value:expr))?)*;
    )*) => {
        pub(super) const ROWS: &[SettingSpec] = &[$(
            SettingSpec {
                name: $name,
                kind: $kind,
                default: $default,
                $($field: settings!(@ $($value)?),)*
                help: concat!($($help),+).trim_ascii_start(),
                ..SettingSpec::in_section($section)
            },
        )*];
    };
    (@) => { true };
    (@ $value:expr) => { $value };
}

mod disk_store;
mod freshness;
mod limits;
mod listening;
mod memory_tier;
mod peers;
mod process;
mod quantities;
mod replication;
mod setting_section;
mod setting_spec;
mod snapshots;
mod source;
mod throttle;
mod tls;
mod value_kind;

pub use setting_section::SettingSection;
pub use setting_spec::{Fallback, SettingSpec};
pub use value_kind::ValueKind;

/// The rows of each section, in the order of the documentation.
const SECTIONS: [&[SettingSpec]; 12] = [
    listening::ROWS,
    tls::ROWS,
    memory_tier::ROWS,
    freshness::ROWS,
    source::ROWS,
    disk_store::ROWS,
    snapshots::ROWS,
    peers::ROWS,
    replication::ROWS,
    limits::ROWS,
    throttle::ROWS,
    process::ROWS,
];

/// The rows of each section after its heading, in the order of the documentation.
pub(super) fn sections() -> impl Iterator<Item = (&'static str, &'static [SettingSpec])> {
    SECTIONS.into_iter().filter_map(|rows| Some((rows.first()?.section.title(), rows)))
}

/// Every setting.
pub fn all_settings() -> impl Iterator<Item = &'static SettingSpec> {
    SECTIONS.into_iter().flatten()
}

/// The setting of that name.
pub(super) fn find(name: &str) -> Option<&'static SettingSpec> {
    all_settings().find(|setting| setting.name == name)
}
