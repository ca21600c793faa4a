//! How the value of a key is read and written: the statements of one query of the settings, or of
//! the table of the URL.
use super::{changes::snapshot::SEEN, parameters::ParameterKind};
use crate::prefix_table::PrefixTable;
use std::{borrow::Cow, sync::Arc};

/// The type of the only column of a query. It is its value; several columns are an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OnlyColumn {
    Bytes(String),
    Json(String),
    Other(String),
}

/// How keys with one prefix are read and written.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) prefix: String,
    pub(super) parameters: Vec<ParameterKind>,
    /// One value. Parameters: the parts of the key, then the largest length that is sent. Columns:
    /// what was seen, the length, the value.
    pub(super) one: String,
    /// Several values. Parameters: an array of keys, the largest length. Columns: the same, then
    /// the number of the key, from 1.
    pub(super) many: Option<String>,
    /// The parameters alone, which fails where one has not the type.
    pub(super) probe: String,
    /// The value is JSON.
    pub(super) is_json: bool,
    pub(super) writes: Writes,
    /// Changes are announced: copies need not be as short-lived as `ttl` says.
    pub(super) is_watched: bool,
}

/// The lookups of a source.
pub(super) struct Plan {
    pub(super) lookups: PrefixTable<Arc<Lookup>>,
}

/// How values are written.
#[derive(Debug)]
pub(super) enum Writes {
    /// By the statements of the settings, if they are there.
    Statements { upsert: Option<String>, delete: Option<String>, value: ParameterKind },
    /// To this table.
    Table(TableWrites),
}

/// A table that takes writes.
#[derive(Debug)]
pub(super) struct TableWrites {
    /// As SQL names it.
    pub(super) table: String,
    /// The columns that are the key, with their types.
    pub(super) keys: Vec<(String, String)>,
    /// The columns of the value, with their types.
    pub(super) columns: Vec<(String, String)>,
    /// The value is that of the only column.
    pub(super) is_bare: bool,
}

impl Lookup {
    /// The parameters that a key gives; `None`: it names no row.
    pub(super) fn parameters_of<'k>(&self, key: &'k [u8]) -> Option<Vec<Cow<'k, str>>> {
        let rest = key.get(self.prefix.len()..)?;
        let count = self.parameters.len();
        let parts: Vec<&[u8]> = rest.splitn(count.max(1), |byte| *byte == b':').take(count).collect();
        if parts.len() != count || count == 0 && !rest.is_empty() {
            return None;
        }
        self.parameters.iter().zip(parts).map(|(kind, part)| kind.text(part)).collect()
    }
}

/// The value of a row `q`.
fn value(only: Option<&OnlyColumn>) -> String {
    match only {
        None => "row_to_json(q)::text".to_owned(),
        Some(OnlyColumn::Bytes(name)) => format!("q.{}", quoted(name)),
        Some(OnlyColumn::Json(name) | OnlyColumn::Other(name)) => format!("q.{}::text", quoted(name)),
    }
}

/// The statement that reads one value. The length is looked at before the value is sent.
pub(super) fn read_one(query: &str, parameters: usize, only: Option<&OnlyColumn>, all_rows: bool) -> String {
    let limit = parameters + 1;
    let value = match (all_rows, only) {
        (false, only) => value(only),
        (true, None) => "coalesce('[' || string_agg(row_to_json(q)::text, ',') || ']', '[]')".to_owned(),
        (true, Some(OnlyColumn::Bytes(name) | OnlyColumn::Json(name) | OnlyColumn::Other(name))) => {
            format!(
                "coalesce('[' || string_agg(coalesce(to_json(q.{})::text, 'null'), ',') || ']', '[]')",
                quoted(name)
            )
        }
    };
    // LIMIT and OFFSET keep the planner from making the value twice.
    format!(
        "SELECT s.seen, r.len, CASE WHEN r.len <= ${limit}::bigint THEN r.v END \
         FROM (SELECT {SEEN} AS seen OFFSET 0) s LEFT JOIN (\
         SELECT v.v, octet_length(v.v) AS len FROM (SELECT {value} AS v FROM (\n{query}\n) q LIMIT 1) v OFFSET 0) r ON true"
    )
}

/// The statement that reads several rows of a table by a key of one column.
pub(super) fn read_many(table: &str, key: &str, key_type: &str, columns: &str, only: Option<&OnlyColumn>) -> String {
    let (value, key) = (value(only), quoted(key));
    format!(
        "SELECT s.seen, r.len, CASE WHEN r.len <= $2::bigint THEN r.v END, r.i \
         FROM (SELECT {SEEN} AS seen OFFSET 0) s LEFT JOIN (\
         SELECT k.i, v.v, octet_length(v.v) AS len FROM unnest($1::{key_type}[]) WITH ORDINALITY AS k(k, i) \
         CROSS JOIN LATERAL (SELECT {value} AS v FROM (SELECT {columns} FROM {table} t WHERE t.{key} = k.k LIMIT 1) q \
         OFFSET 0) v) r ON true"
    )
}

/// A name of SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text constant of SQL.
pub(super) fn literal(text: &str) -> String {
    // A backslash is an escape only in E'…', with the default `standard_conforming_strings`.
    format!("'{}'", text.replace('\'', "''"))
}
