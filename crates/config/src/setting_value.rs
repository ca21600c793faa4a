//! One value of a setting, of any type that shows itself so that it reads back.
use larder_units::{show_duration, show_size};
use std::{any::Any, fmt, str::FromStr, sync::Arc, time::Duration};

/// A checked value: a type that shows itself so that it reads back.
#[derive(Clone)]
pub struct SettingValue(Arc<dyn Value>);

/// What a value can do. Secrets show as `***`.
trait Value: Any + fmt::Debug + fmt::Display + Send + Sync {
    fn equals(&self, other: &dyn Value) -> bool;
}
impl<T: Any + fmt::Debug + fmt::Display + PartialEq + Send + Sync> Value for T {
    fn equals(&self, other: &dyn Value) -> bool {
        (other as &dyn Any).downcast_ref::<T>() == Some(self)
    }
}

impl SettingValue {
    pub(super) fn new<T: Any + fmt::Debug + fmt::Display + PartialEq + Send + Sync>(value: T) -> SettingValue {
        SettingValue(Arc::new(value))
    }
    /// The value; `None`: it is of another type.
    pub(super) fn get<T: Any>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }
}
impl PartialEq for SettingValue {
    fn eq(&self, other: &SettingValue) -> bool {
        self.0.equals(&*other.0)
    }
}
impl fmt::Debug for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.0, f)
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub u64);
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show_size(self.0))
    }
}

/// Per cent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Percent(pub u64);
impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// A time of whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub Duration);
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show_duration(self.0))
    }
}

/// A share of all, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share(pub u32);
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 1e4)
    }
}
impl FromStr for Share {
    type Err = String;
    fn from_str(text: &str) -> Result<Share, String> {
        let number = text
            .strip_suffix('%')
            .map(str::trim_end)
            .filter(|number| number.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
        let percent: f64 = number
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| format!("`{text}` is not a share: write 100% for all, 5%, 0.1%, or `none`"))?;
        let millionths = (percent * 1e4).round();
        match (1.0..=1e6).contains(&millionths) {
            true => Ok(Share(millionths as u32)),
            false => Err(format!("{text} is not between 0.0001% and 100%")),
        }
    }
}
