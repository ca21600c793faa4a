//! Writes: by the statements of the settings, or to the table of the URL.
use super::{
    lookup::{Lookup, TableWrites, Writes, quoted},
    parameters::ParameterKind,
    session::{InUse, is_of_class},
    session_pool::SessionPool,
    sql_error::describe,
};
use crate::{fetch_refusals::timeout_reason, source_error::SourceError};
use larder_config::nearest;
use std::collections::BTreeMap;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Error, Row};

/// Stores a value; true if it replaced one, as far as the database says.
pub(super) async fn put(pool: &SessionPool, key: &[u8], value: &[u8]) -> Result<bool, SourceError> {
    let lookup = lookup(pool, key).await?;
    let keys = keys_of(pool, &lookup, key)?;
    let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
    let with = |value| keys.iter().copied().chain([value]).collect::<Vec<&str>>();
    match &lookup.writes {
        Writes::Statements { upsert: None, .. } => Err(pool.settings.refused("this key's query has no `upsert`")),
        Writes::Statements { upsert: Some(upsert), value: kind, .. } => {
            let value = text_of(pool, *kind, value)?;
            let (_, rows) = write(pool, upsert, &with(&value)).await?;
            // What it replaced is not known. What it did is.
            Ok(rows > 0)
        }
        Writes::Table(table) if table.is_bare => {
            let kind = table.columns.first().map_or(ParameterKind::Text, |(_, name)| ParameterKind::of(name));
            let value = text_of(pool, kind, value)?;
            let (row, _) = write(pool, &bare_upsert(table), &with(&value)).await?;
            Ok(has_replaced(row.as_ref()))
        }
        Writes::Table(table) => {
            let value = text_of(pool, ParameterKind::Text, value)?;
            let fields = fields_of(table, &value, &keys).map_err(|why| pool.settings.refused(why))?;
            let statement = upsert(table, &fields);
            let (row, _) = write(pool, &statement, &with(&value)).await?;
            Ok(has_replaced(row.as_ref()))
        }
    }
}

/// Deletes a key; true if there was a row.
pub(super) async fn delete(pool: &SessionPool, key: &[u8]) -> Result<bool, SourceError> {
    let lookup = lookup(pool, key).await?;
    let Some(keys) = lookup.parameters_of(key) else { return Ok(false) };
    let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
    let statement = match &lookup.writes {
        Writes::Statements { delete: None, .. } => {
            return Err(pool.settings.refused("this key's query has no `delete`"));
        }
        Writes::Statements { delete: Some(delete), .. } => delete.clone(),
        Writes::Table(table) => format!("DELETE FROM {} WHERE {}", table.table, condition(table)),
    };
    Ok(write(pool, &statement, &keys).await?.1 > 0)
}

async fn lookup(pool: &SessionPool, key: &[u8]) -> Result<std::sync::Arc<Lookup>, SourceError> {
    let plan = pool.plan().await?;
    plan.lookups.get(key).cloned().ok_or_else(|| pool.settings.refused("no query has keys like this one"))
}

fn keys_of<'k>(
    pool: &SessionPool,
    lookup: &Lookup,
    key: &'k [u8],
) -> Result<Vec<std::borrow::Cow<'k, str>>, SourceError> {
    lookup.parameters_of(key).ok_or_else(|| {
        let what = format!("the key `{}` has no values for the parameters of its query", key.escape_ascii());
        pool.settings.refused(what)
    })
}

fn text_of<'v>(
    pool: &SessionPool,
    kind: ParameterKind,
    value: &'v [u8],
) -> Result<std::borrow::Cow<'v, str>, SourceError> {
    // The database itself says what is wrong with a number.
    let kind = if kind == ParameterKind::Bytes { kind } else { ParameterKind::Text };
    kind.text(value).ok_or_else(|| pool.settings.refused("the value is not UTF-8, or has a NUL: a text cannot hold it"))
}

async fn write(pool: &SessionPool, statement: &str, parameters: &[&str]) -> Result<(Option<Row>, u64), SourceError> {
    let settings = &pool.settings;
    let limit = settings.limits.timeout;
    let deadline = Instant::now() + limit;
    let late = || settings.unavailable(timeout_reason(limit, &settings.limits));
    let session = timeout_at(deadline, pool.writer()).await.map_err(|_| late())??;
    let session = InUse::new(session);
    match timeout_at(deadline, session.0.write(statement, parameters)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) if is_unsure(&error) => {
            Err(SourceError::Lost(format!("postgres://{}: {}", settings.url.origin(), describe(&error)).into()))
        }
        Ok(Err(error)) => Err(settings.error(&error)),
        Err(_) => {
            session.0.close();
            let reason = timeout_reason(limit, &settings.limits);
            Err(SourceError::Lost(format!("postgres://{}: {reason}", settings.url.origin()).into()))
        }
    }
}

/// Whether the write may have been made: the connection broke off, or its server ended.
fn is_unsure(error: &Error) -> bool {
    error.as_db_error().is_none() || is_of_class(error, "08") || is_of_class(error, "57P")
}

fn has_replaced(row: Option<&Row>) -> bool {
    row.and_then(|row| row.try_get::<_, bool>(0).ok()).unwrap_or(true)
}

fn condition(table: &TableWrites) -> String {
    let parts = table.keys.iter().enumerate().map(|(at, (key, _))| format!("{} = ${}", quoted(key), at + 1));
    parts.collect::<Vec<_>>().join(" AND ")
}

/// Of a value that is the text of the only column.
fn bare_upsert(table: &TableWrites) -> String {
    let keys: Vec<String> = table.keys.iter().map(|(key, _)| quoted(key)).collect();
    let places: Vec<String> = (1..=keys.len() + 1).map(|at| format!("${at}")).collect();
    let column = table.columns.first().map(|(name, _)| quoted(name)).unwrap_or_default();
    format!(
        "INSERT INTO {} ({}, {column}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {column} = EXCLUDED.{column} \
         RETURNING xmax::text <> '0'",
        table.table,
        keys.join(", "),
        places.join(", "),
        keys.join(", ")
    )
}

/// The columns that an object names, without those of the key.
///
/// # Errors
/// It is no object, a field is no column, or a field says another key.
fn fields_of<'t>(table: &'t TableWrites, value: &str, keys: &[&str]) -> Result<Vec<&'t str>, String> {
    let object: BTreeMap<String, serde_json::Value> = serde_json::from_str(value)
        .map_err(|error| format!("the value is no JSON object, which a row is written from: {error}"))?;
    let mut fields = Vec::new();
    for (field, value) in &object {
        let column = table.columns.iter().find(|(name, _)| name == field).ok_or_else(|| {
            let near = nearest(field, table.columns.iter().map(|(name, _)| name.as_str()));
            let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
            format!("the table {} has no column for the field `{field}`{near}", table.table)
        })?;
        let Some(at) = table.keys.iter().position(|(key, _)| key == field) else {
            fields.push(column.0.as_str());
            continue;
        };
        let says = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if says != keys[at] {
            return Err(format!("the field `{field}` says {says}, and the key says {}", keys[at]));
        }
    }
    Ok(fields)
}

/// Of a value that is an object. What it does not name stays as it is, or gets the column's default.
/// An insert alone would ask for all columns that are `NOT NULL`, even of a row that is there.
fn upsert(table: &TableWrites, fields: &[&str]) -> String {
    let keys: Vec<String> = table.keys.iter().map(|(key, _)| quoted(key)).collect();
    let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    let columns: Vec<&str> = keys.iter().chain(&fields).map(String::as_str).collect();
    let typed: Vec<String> =
        table.keys.iter().enumerate().map(|(at, (_, type_name))| format!("${}::{type_name}", at + 1)).collect();
    let row: Vec<String> = keys.iter().zip(&typed).map(|(key, typed)| format!("t.{key} = {typed}")).collect();
    let values: Vec<String> = typed.into_iter().chain(fields.iter().map(|field| format!("r.{field}"))).collect();
    let list = |of: &str| fields.iter().map(|field| format!("{field} = {of}.{field}")).collect::<Vec<_>>().join(", ");
    let (name, row) = (&table.table, row.join(" AND "));
    let (found, change) = match fields.is_empty() {
        true => (format!("SELECT 1 FROM {name} t WHERE {row}"), "NOTHING".to_owned()),
        false => (
            format!("UPDATE {name} t SET {} FROM r WHERE {row} RETURNING 1", list("r")),
            format!("UPDATE SET {}", list("EXCLUDED")),
        ),
    };
    format!(
        "WITH r AS (SELECT * FROM json_populate_record(NULL::{name}, ${value}::text::json)), u AS ({found}), \
         i AS (INSERT INTO {name} ({columns}) SELECT {values} FROM r WHERE NOT EXISTS (SELECT FROM u) \
         ON CONFLICT ({keys}) DO {change}) SELECT EXISTS (SELECT FROM u)",
        columns = columns.join(", "),
        values = values.join(", "),
        value = keys.len() + 1,
        keys = keys.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_names_columns() {
        let text = |text: &str| text.to_owned();
        let table = TableWrites {
            table: text("public.users"),
            keys: vec![(text("id"), text("integer"))],
            columns: [("id", "integer"), ("name", "text"), ("e\"mail", "text")]
                .map(|(name, type_name)| (text(name), text(type_name)))
                .into(),
            is_bare: false,
        };
        for (value, expected) in [
            (r#"{"name":"Ada","id":42}"#, Ok(vec!["name"])),
            (r#"{"id":"42"}"#, Ok(vec![])),
            ("{}", Ok(vec![])),
            (r#"{"e\"mail":null}"#, Ok(vec!["e\"mail"])),
            (r#"{"names":1}"#, Err("the table public.users has no column for the field `names`, did you mean `name`?")),
            (r#"{"name\") --":1}"#, Err("the table public.users has no column for the field `name\") --`")),
            (r#"{"id":43}"#, Err("the field `id` says 43, and the key says 42")),
            ("[1]", Err("the value is no JSON object")),
            ("Ada", Err("the value is no JSON object")),
        ] {
            match (fields_of(&table, value, &["42"]), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{value}"),
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{value}: {found}"),
                (found, _) => panic!("{value}: {found:?}"),
            }
        }
        assert_eq!(
            upsert(&table, &["name"]),
            "WITH r AS (SELECT * FROM json_populate_record(NULL::public.users, $2::text::json)), u AS (\
             UPDATE public.users t SET \"name\" = r.\"name\" FROM r WHERE t.\"id\" = $1::integer RETURNING 1), \
             i AS (INSERT INTO public.users (\"id\", \"name\") SELECT $1::integer, r.\"name\" FROM r \
             WHERE NOT EXISTS (SELECT FROM u) ON CONFLICT (\"id\") DO UPDATE SET \"name\" = EXCLUDED.\"name\") \
             SELECT EXISTS (SELECT FROM u)"
        );
        assert!(upsert(&table, &[]).contains("DO NOTHING"));
    }
}
