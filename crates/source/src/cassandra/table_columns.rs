//! Which columns of the table are keys and values: those of Larder's own table, or two columns of
//! another table that the URL names.
//!
//! A named value is stored as it is, without a head. So such a table has no revisions, no exact
//! lifetimes, and no documents.
use super::{
    cassandra_settings::{CassandraSettings, quoted},
    stored_row::{LONGEST_KEY, decode, encode, key_of_row, kind_of_version, table_key},
};
use crate::source_error::SourceError;
use bytes::Bytes;
use larder_config::{CassandraUrl, nearest};
use larder_engine::Millis;
use larder_store::{StoredValue, ValueKind};
use scylla::{
    client::session::Session,
    cluster::metadata::{ColumnKind, ColumnType, NativeType, Table},
    errors::ExecutionError,
    serialize::{
        SerializationError,
        value::SerializeValue,
        writers::{CellWriter, WrittenCellProof},
    },
};
use std::borrow::Cow;

/// Names that an error lists at most.
const LISTED: usize = 20;

/// The columns of the table.
pub(super) enum TableColumns {
    /// `key blob PRIMARY KEY, value blob, version bigint`.
    Own,
    Named(NamedColumns),
}

/// Two columns of a table of another program.
pub(super) struct NamedColumns {
    key: String,
    key_type: NativeType,
    value: String,
    value_type: NativeType,
    /// New rows expire (`default_time_to_live`), so a copy of what was written would outlive its row.
    has_lifetimes: bool,
}

/// The parts of the statements.
pub(super) struct ColumnTexts {
    /// The key's column.
    pub(super) key: String,
    /// The value's column.
    pub(super) value: String,
    /// Key and value as blobs, whatever their types are.
    pub(super) read_key: String,
    pub(super) read_value: String,
    /// What is read besides the value: the version, or the seconds left.
    pub(super) beside_value: String,
    /// What is read besides the key: the version, or a number if there is a value.
    pub(super) beside_key: String,
}

/// A value that is in the form of its column's type already.
pub(super) struct RawCell<'b>(pub(super) &'b [u8]);
impl SerializeValue for RawCell<'_> {
    fn serialize<'w>(
        &self,
        _: &ColumnType<'_>,
        writer: CellWriter<'w>,
    ) -> Result<WrittenCellProof<'w>, SerializationError> {
        writer.set_value(self.0).map_err(SerializationError::new)
    }
}

impl TableColumns {
    /// The columns of a URL, as the cluster describes its table.
    ///
    /// # Errors
    /// `Ok(Err(…))`: the table is not as the URL says; else the cluster did not answer.
    pub(super) async fn of(
        session: &Session,
        url: &CassandraUrl,
    ) -> Result<Result<TableColumns, String>, ExecutionError> {
        let Some(value) = &url.columns else { return Ok(Ok(TableColumns::Own)) };
        let cluster = session.get_cluster_state();
        let Some(keyspace) = cluster.get_keyspace(&url.keyspace) else {
            return Ok(Err(format!("there is no keyspace {}", url.keyspace)));
        };
        let Some(table) = keyspace.tables.get(&url.table) else {
            let names = listed(keyspace.tables.keys(), &url.table);
            return Ok(Err(format!("table={}: the keyspace {} has {names}", url.table, url.keyspace)));
        };
        let named = match named(url, table, value) {
            Ok(named) => named,
            Err(error) => return Ok(Err(error)),
        };
        let asked = "SELECT default_time_to_live FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
        let answer = session.query_unpaged(asked, (&url.keyspace, &url.table)).await?;
        let row = answer.into_rows_result().ok().and_then(|rows| rows.maybe_first_row::<(Option<i32>,)>().ok()?);
        let has_lifetimes = row.is_some_and(|(lifetime,)| lifetime.unwrap_or(0) != 0);
        Ok(Ok(TableColumns::Named(NamedColumns { has_lifetimes, ..named })))
    }

    pub(super) fn texts(&self) -> ColumnTexts {
        match self {
            TableColumns::Own => ColumnTexts {
                key: "key".to_owned(),
                value: "value".to_owned(),
                read_key: "key".to_owned(),
                read_value: "value".to_owned(),
                beside_value: "version".to_owned(),
                beside_key: "version".to_owned(),
            },
            TableColumns::Named(of) => {
                let (key, value) = (quoted(&of.key), quoted(&of.value));
                ColumnTexts {
                    read_key: as_blob(&key, &of.key_type),
                    read_value: as_blob(&value, &of.value_type),
                    beside_value: format!("CAST(ttl({value}) AS bigint)"),
                    beside_key: format!("writetime({value})"),
                    key,
                    value,
                }
            }
        }
    }

    /// A key as its column has it, whether there is a row or not.
    pub(super) fn probe(&self) -> Cow<'static, [u8]> {
        match self {
            TableColumns::Own => Cow::Borrowed(b"\0"),
            TableColumns::Named(of) => {
                let id = || uuid(b"00000000-0000-1000-8000-000000000000");
                typed_key(&of.key_type, b"0").or_else(id).unwrap_or_default()
            }
        }
    }

    /// The key as its column has it; `None`: the column has no such value.
    pub(super) fn row_key<'k>(&self, key: &'k [u8]) -> Option<Cow<'k, [u8]>> {
        let row_key = match self {
            TableColumns::Own => table_key(key),
            TableColumns::Named(of) => typed_key(&of.key_type, key)?,
        };
        Some(row_key).filter(|key| key.len() <= LONGEST_KEY)
    }

    /// Like [`row_key`](TableColumns::row_key), to write it.
    pub(super) fn key_to_write<'k>(
        &self,
        settings: &CassandraSettings,
        key: &'k [u8],
    ) -> Result<Cow<'k, [u8]>, SourceError> {
        self.row_key(key).ok_or_else(|| match self {
            TableColumns::Named(of) if key.len() <= LONGEST_KEY => settings.refused(format!(
                "the column {} is {}, which has no such value",
                of.key,
                type_name(&of.key_type)
            )),
            _ => {
                settings.refused(format!("a key of {} bytes is longer than Cassandra takes ({LONGEST_KEY})", key.len()))
            }
        })
    }

    /// The key of a row.
    pub(super) fn key_of<'k>(&self, row_key: &'k [u8]) -> &'k [u8] {
        match self {
            TableColumns::Own => key_of_row(row_key),
            TableColumns::Named(_) => row_key,
        }
    }

    /// The entry of a row's value; `None`: another program wrote into Larder's table.
    pub(super) fn entry(&self, value: Bytes, beside: Option<i64>, now: Millis) -> Option<StoredValue> {
        match self {
            TableColumns::Own => decode(value),
            TableColumns::Named(_) => {
                let left = beside.map(|seconds| u64::try_from(seconds).unwrap_or(0));
                Some(StoredValue::string(value, left.map(|seconds| now + 1000 * seconds)))
            }
        }
    }

    /// The kind of the entry of a row that was read without its value; `None`: there is no value.
    pub(super) fn kind_of(&self, beside: Option<i64>) -> Option<ValueKind> {
        match self {
            TableColumns::Own => Some(kind_of_version(beside)),
            TableColumns::Named(_) => beside.map(|_| ValueKind::String),
        }
    }

    /// The revision of a row.
    pub(super) fn revision(&self, beside: Option<i64>) -> Option<i64> {
        beside.filter(|_| matches!(self, TableColumns::Own))
    }

    /// The value as its column has it; `None`: it is deleted.
    ///
    /// # Errors
    /// The table is only read, or has no such value.
    pub(super) fn value_to_write(
        &self,
        settings: &CassandraSettings,
        entry: Option<&StoredValue>,
    ) -> Result<Option<Bytes>, SourceError> {
        let TableColumns::Named(of) = self else { return Ok(entry.map(encode)) };
        let refused = |why: String| Err(settings.refused(why));
        for (name, of_column) in [(&of.key, &of.key_type), (&of.value, &of.value_type)] {
            if !matches!(of_column, NativeType::Blob | NativeType::Text) {
                let of_column = type_name(of_column);
                return refused(format!(
                    "the table {} is only read: its column {name} is {of_column}, not text or blob",
                    settings.url.table
                ));
            }
        }
        if of.has_lifetimes {
            let table = &settings.url.table;
            return refused(format!("the table {table} is only read: it has a default_time_to_live"));
        }
        let Some(entry) = entry else { return Ok(None) };
        if entry.expiry.is_some() {
            return refused(lacks(settings, "lifetimes to the millisecond"));
        }
        match entry.kind {
            ValueKind::String => {}
            ValueKind::Document => return refused(lacks(settings, "JSON documents")),
            ValueKind::Flagged(_) => return refused(lacks(settings, "flags of memcached")),
        }
        if of.value_type == NativeType::Text && std::str::from_utf8(&entry.value).is_err() {
            return refused(format!("the column {} is text, and the value is not UTF-8", of.value));
        }
        Ok(Some(entry.value.clone()))
    }

    /// The error of a change that rests on what was read.
    pub(super) fn no_versions(&self, settings: &CassandraSettings) -> SourceError {
        settings.refused(lacks(settings, "column `version`, which this command needs"))
    }
}

/// What only Larder's own table has.
fn lacks(settings: &CassandraSettings, what: &str) -> String {
    format!("the table {} has no {what}: Larder's own has (`larder cassandra schema`)", settings.url.table)
}

/// The columns that a URL names.
fn named(url: &CassandraUrl, table: &Table, value: &str) -> Result<NamedColumns, String> {
    let name = &url.table;
    let [key] = &table.partition_key[..] else {
        return Err(one_key_column(name, table));
    };
    if !table.clustering_key.is_empty() {
        return Err(one_key_column(name, table));
    }
    let column = |what: &str, asked: &str| {
        let found = table.columns.get(asked).map(|column| (&column.typ, &column.kind));
        found.ok_or_else(|| format!("{what}={asked}: the table {name} has {}", listed(table.columns.keys(), asked)))
    };
    if let Some(asked) = &url.key {
        column("key", asked)?;
        if asked != key {
            return Err(format!(
                "key={asked}: the primary key of {name} is {key}, and Cassandra finds rows by it only"
            ));
        }
    }
    let (value_type, kind) = column("columns", value)?;
    if *kind != ColumnKind::Regular {
        return Err(format!("columns={value}: it is the key of {name}: name the column that is the value"));
    }
    let (key_type, _) = column("key", key)?;
    let key_type = match key_type {
        ColumnType::Native(
            of @ (NativeType::Text
            | NativeType::Ascii
            | NativeType::Blob
            | NativeType::TinyInt
            | NativeType::SmallInt
            | NativeType::Int
            | NativeType::BigInt
            | NativeType::Uuid
            | NativeType::Timeuuid),
        ) => of.clone(),
        other => {
            let other = shown_type(other);
            return Err(format!("key={key}: it is {other}, and keys are text, ascii, blob, integers or UUIDs"));
        }
    };
    let value_type = match value_type {
        ColumnType::Native(of) if !matches!(of, NativeType::Counter | NativeType::Duration) => of.clone(),
        other => {
            let other = shown_type(other);
            return Err(format!(
                "columns={value}: it is {other}: name a column of text, blob, numbers, times or UUIDs"
            ));
        }
    };
    let is_own = |name: &str, of| table.columns.get(name).is_some_and(|column| column.typ == ColumnType::Native(of));
    if key == "key" && value == "value" && is_own("value", NativeType::Blob) && is_own("version", NativeType::BigInt) {
        return Err(format!("the table {name} is Larder's own: leave out key and columns"));
    }
    Ok(NamedColumns { key: key.clone(), key_type, value: value.to_owned(), value_type, has_lifetimes: false })
}

fn one_key_column(name: &str, table: &Table) -> String {
    let all: Vec<_> = table.partition_key.iter().chain(&table.clustering_key).map(String::as_str).collect();
    format!(
        "table={name}: its primary key has several columns ({}), and a key is one: \
         make a table with one key column, or Larder's own with `larder cassandra schema`",
        all.join(", ")
    )
}

/// Names, in order, and the one that may have been meant.
fn listed<'n>(names: impl Iterator<Item = &'n String>, asked: &str) -> String {
    let mut all: Vec<&str> = names.map(String::as_str).collect();
    all.sort_unstable();
    let near = nearest(asked, all.iter().copied()).map_or(String::new(), |near| format!("; did you mean {near}?"));
    let more = if all.len() > LISTED { ", …" } else { "" };
    all.truncate(LISTED);
    let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    format!("{all}{more}{near}")
}

/// The name of a type in CQL.
fn type_name(of: &NativeType) -> String {
    format!("{of:?}").to_ascii_lowercase()
}
fn shown_type(of: &ColumnType<'_>) -> String {
    match of {
        ColumnType::Native(of) => type_name(of),
        ColumnType::Collection { .. } => "a collection".to_owned(),
        ColumnType::Tuple(_) => "a tuple".to_owned(),
        ColumnType::Vector { .. } => "a vector".to_owned(),
        _ => "a user-defined type".to_owned(),
    }
}

/// The text of a column as a blob.
fn as_blob(column: &str, of: &NativeType) -> String {
    match of {
        NativeType::Blob => column.to_owned(),
        NativeType::Text => format!("textAsBlob({column})"),
        _ => format!("textAsBlob(CAST({column} AS text))"),
    }
}

/// The bytes of a key in a column of this type; `None`: the type has no such value. An empty key has
/// no row.
fn typed_key<'k>(of: &NativeType, key: &'k [u8]) -> Option<Cow<'k, [u8]>> {
    if key.is_empty() {
        return None;
    }
    let text = || std::str::from_utf8(key).ok();
    match of {
        NativeType::Blob => Some(key.into()),
        NativeType::Text => text().map(|_| key.into()),
        NativeType::Ascii => key.is_ascii().then(|| key.into()),
        NativeType::TinyInt => Some(text()?.parse::<i8>().ok()?.to_be_bytes().to_vec().into()),
        NativeType::SmallInt => Some(text()?.parse::<i16>().ok()?.to_be_bytes().to_vec().into()),
        NativeType::Int => Some(text()?.parse::<i32>().ok()?.to_be_bytes().to_vec().into()),
        NativeType::BigInt => Some(text()?.parse::<i64>().ok()?.to_be_bytes().to_vec().into()),
        NativeType::Uuid => uuid(key),
        NativeType::Timeuuid => uuid(key).filter(|id| id[6] >> 4 == 1),
        _ => None,
    }
}

/// `8-4-4-4-12` hexadecimal digits.
fn uuid(text: &[u8]) -> Option<Cow<'static, [u8]>> {
    if text.len() != 36 || [8, 13, 18, 23].iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let digits = text.iter().enumerate().filter(|(at, _)| ![8, 13, 18, 23].contains(at));
    let digits: Vec<u8> =
        digits.map(|(_, digit)| char::from(*digit).to_digit(16).map(|of| of as u8)).collect::<Option<_>>()?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect::<Vec<u8>>().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_its_column_cannot_hold_has_no_row() {
        let id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
        let bytes = b"\x6b\xa7\xb8\x10\x9d\xad\x11\xd1\x80\xb4\0\xc0\x4f\xd4\x30\xc8";
        for (of, key, row) in [
            (NativeType::Int, "42", Some(&b"\0\0\0\x2a"[..])),
            (NativeType::Int, "-2", Some(b"\xff\xff\xff\xfe")),
            (NativeType::Int, "2147483647", Some(b"\x7f\xff\xff\xff")),
            (NativeType::Int, "2147483648", None),
            (NativeType::Int, "-2147483649", None),
            (NativeType::Int, "abc", None),
            (NativeType::Int, " 1", None),
            (NativeType::Int, "1; DROP TABLE users", None),
            (NativeType::Int, "", None),
            (NativeType::TinyInt, "-128", Some(b"\x80")),
            (NativeType::TinyInt, "128", None),
            (NativeType::SmallInt, "258", Some(b"\x01\x02")),
            (NativeType::BigInt, "9223372036854775807", Some(b"\x7f\xff\xff\xff\xff\xff\xff\xff")),
            (NativeType::BigInt, "9223372036854775808", None),
            (NativeType::Uuid, id, Some(bytes)),
            (NativeType::Timeuuid, id, Some(bytes)),
            (NativeType::Timeuuid, "6ba7b810-9dad-41d1-80b4-00c04fd430c8", None),
            (NativeType::Uuid, "6ba7b8109dad11d180b400c04fd430c8", None),
            (NativeType::Uuid, "6ba7b810-9dad-11d1-80b4-00c04fd430cx", None),
            (NativeType::Uuid, "6ba7b810-9dad-11d1-80b4-00c04fd430c", None),
            (NativeType::Text, "o'\"k", Some(b"o'\"k")),
            (NativeType::Text, "", None),
            (NativeType::Ascii, "é", None),
            (NativeType::Boolean, "true", None),
        ] {
            assert_eq!(typed_key(&of, key.as_bytes()).as_deref(), row, "{of:?} {key}");
        }
        assert_eq!(typed_key(&NativeType::Text, b"\xff"), None);
        assert_eq!(typed_key(&NativeType::Blob, b"\xff").as_deref(), Some(&b"\xff"[..]));
        assert_eq!(typed_key(&NativeType::Uuid, "é".repeat(18).as_bytes()), None);
    }
}
