//! Rows and columns as JSON text.
use super::columns::Columns;
use serde_json::json;
use std::fmt::Write as _;

/// Below this every whole number is exact in the rows.
const EXACT: f32 = 16_777_216.0;

/// `[unix seconds, number or null, …]`
pub(super) fn put_row(text: &mut String, second: u64, row: &[f32]) {
    // Writing to a string cannot fail.
    let _ = write!(text, "[{second}");
    for value in row {
        text.push(',');
        put_number(text, *value);
    }
    text.push(']');
}

/// Whole numbers as such, others with as many digits as are significant; what is missing is `null`.
fn put_number(text: &mut String, value: f32) {
    let _ = match value {
        value if !value.is_finite() => write!(text, "null"),
        value if value == value.trunc() || value.abs() >= EXACT => write!(text, "{}", value as i64),
        value => write!(text, "{}", (value * 1e4).round() / 1e4),
    };
}

/// `[{"name","fold","group"?,"up_to"?},…]`
pub(super) fn put_columns(text: &mut String, columns: &Columns) {
    let columns: Vec<_> = columns
        .names()
        .map(|column| {
            let mut object = json!({"name": column.name, "fold": column.fold.name()});
            if let Some(group) = column.group {
                object["group"] = group.into();
            }
            if let Some(end) = column.up_to {
                object["up_to"] = end.into();
            }
            object
        })
        .collect();
    text.push_str(&serde_json::Value::from(columns).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_json() {
        let mut text = String::new();
        put_row(&mut text, 7, &[0.0, 3.0, f32::NAN, 0.123_456, 1.5e9, f32::INFINITY, -2.0]);
        assert_eq!(text, "[7,0,3,null,0.1235,1500000000,null,-2]");
    }
}
