//! What the settings ask the database for, checked by the database: types of parameters and
//! columns, the key of the table. All of it is SQL, in one transaction: a pooler may be between.
use super::{
    connect::{Opened, Purpose, connect},
    lookup::{Lookup, OnlyColumn, Plan, TableWrites, Writes, literal, quoted, read_many, read_one},
    parameters::ParameterKind,
    postgres_settings::PostgresSettings,
    sql_error::describe,
};
use crate::prefix_table::PrefixTable;
use larder_config::{PostgresQuery, nearest};
use std::sync::Arc;
use tokio_postgres::{Client, Error, SimpleQueryMessage, SimpleQueryRow, error::ErrorPosition};

/// Why there is no plan.
pub(super) enum PlanError {
    /// The database was not reached, or broke off.
    Unreachable(String),
    /// The settings are wrong, or do not fit the database.
    Wrong(String),
}

/// Asks the database.
pub(super) async fn check(settings: &Arc<PostgresSettings>) -> Result<Plan, PlanError> {
    let opened = connect(settings, Purpose::Read).await.map_err(PlanError::Unreachable)?;
    let Opened { client, connection, .. } = opened;
    let checked = async {
        let plan = plan(settings, &client).await;
        drop(client);
        plan
    };
    let (plan, _) = tokio::join!(checked, connection);
    plan
}

async fn plan(settings: &PostgresSettings, client: &Client) -> Result<Plan, PlanError> {
    let url = &settings.url;
    let mut lookups = Vec::new();
    if let Some(table) = &url.table {
        lookups.push(of_table(settings, client, table).await?);
    }
    for query in &url.options.queries {
        lookups.push(of_query(client, query).await?);
    }
    let lookups = lookups.into_iter().map(|lookup| (lookup.prefix.clone().into_bytes(), Arc::new(lookup)));
    Ok(Plan { lookups: PrefixTable::new(lookups) })
}

async fn of_table(settings: &PostgresSettings, client: &Client, name: &str) -> Result<Lookup, PlanError> {
    let url = &settings.url;
    let wrong = |what: String| PlanError::Wrong(format!("table={name}: {what}"));
    let asked = format!(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), \
         a.attnum = ANY(coalesce((i.indkey::int2[])[0:i.indnkeyatts - 1], '{{}}')), \
         quote_ident(n.nspname) || '.' || quote_ident(c.relname) \
         FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary \
         WHERE c.oid = {}::regclass AND a.attnum > 0 AND NOT a.attisdropped \
         ORDER BY array_position(i.indkey::int2[], a.attnum), a.attnum",
        literal(name)
    );
    let rows = rows(client, &asked).await.map_err(|error| refused(&error, &format!("table={name}"), "", 0))?;
    let field = |row: &SimpleQueryRow, at| row.get(at).unwrap_or_default().to_owned();
    let columns: Vec<(String, String, bool)> =
        rows.iter().map(|row| (field(row, 0), field(row, 1), field(row, 2) == "t")).collect();
    let table = rows.first().map(|row| field(row, 3)).ok_or_else(|| wrong("it has no columns".to_owned()))?;
    let column = |name: &String, what: &str| {
        let found = columns.iter().find(|(column, ..)| column == name);
        found.ok_or_else(|| {
            let near = nearest(name, columns.iter().map(|(name, ..)| name.as_str()));
            let near = near.map_or(String::new(), |near| format!(", did you mean {near}?"));
            wrong(format!("{what}={name}: it has no such column{near}"))
        })
    };
    let keys = match &url.key {
        Some(key) => vec![column(key, "key")?],
        None => columns.iter().filter(|(_, _, is_key)| *is_key).collect(),
    };
    if keys.is_empty() {
        return Err(wrong("it has no primary key: name the column with &key=COLUMN".to_owned()));
    }
    let chosen = url.columns.iter().map(|name| column(name, "columns")).collect::<Result<Vec<_>, _>>()?;
    let only = match chosen.as_slice() {
        [(name, type_name, _)] => Some(only_column(name, type_name)),
        _ => None,
    };
    let list = match chosen.is_empty() {
        true => "t.*".to_owned(),
        false => chosen.iter().map(|(name, ..)| format!("t.{}", quoted(name))).collect::<Vec<_>>().join(", "),
    };
    let place = |(at, (name, type_name, _)): (usize, &&(String, String, bool))| {
        format!("t.{} = ${}::{type_name}", quoted(name), at + 1)
    };
    let condition: Vec<String> = keys.iter().enumerate().map(place).collect();
    let query = format!("SELECT {list} FROM {table} t WHERE {}", condition.join(" AND "));
    let many = match keys.as_slice() {
        [(key, type_name, _)] => Some(read_many(&table, key, type_name, &list, only.as_ref())),
        _ => None,
    };
    let types: Vec<&str> = keys.iter().map(|(_, type_name, _)| type_name.as_str()).collect();
    let is_value = |name: &str| url.columns.is_empty() || url.columns.iter().any(|column| column == name);
    let writes = match url.options.takes_writes {
        false => Writes::Statements { upsert: None, delete: None, value: ParameterKind::Text },
        true => Writes::Table(TableWrites {
            keys: keys.iter().map(|(name, type_name, _)| (name.clone(), type_name.clone())).collect(),
            columns: columns
                .iter()
                .filter(|(name, _, is_key)| is_value(name) || *is_key && url.columns.len() > 1)
                .map(|(name, type_name, _)| (name.clone(), type_name.clone()))
                .collect(),
            is_bare: only.is_some(),
            table,
        }),
    };
    Ok(Lookup {
        prefix: String::new(),
        parameters: types.iter().map(|name| ParameterKind::of(name)).collect(),
        one: read_one(&query, types.len(), only.as_ref(), false),
        many,
        probe: probe(&types),
        is_json: matches!(only, None | Some(OnlyColumn::Json(_))),
        writes,
        is_watched: true,
    })
}

async fn of_query(client: &Client, settings: &PostgresQuery) -> Result<Lookup, PlanError> {
    let PostgresQuery { prefix, query, all_rows, depends_on, upsert, delete } = settings;
    let named = |name: &str| match prefix.as_str() {
        "" => name.to_owned(),
        prefix => format!("{name} of prefix `{prefix}`"),
    };
    let query = query.trim().trim_end_matches(';').trim_end();
    let types = prepared(client, query, &named("query")).await?;
    let nulls = vec!["NULL"; types.len()].join(", ");
    let nulls = if types.is_empty() { String::new() } else { format!("({nulls})") };
    let run = |text: String| {
        let check = statement_name();
        format!("PREPARE {check} AS {text}; EXECUTE {check}{nulls}; DEALLOCATE {check}")
    };
    let asked = run(format!("SELECT * FROM (\n{query}\n) q LIMIT 0"));
    let messages = client.simple_query(&asked).await.map_err(|error| refused(&error, &named("query"), "", 0))?;
    let columns = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::RowDescription(columns) => Some(columns.iter().map(|of| of.name().to_owned()).collect()),
        _ => None,
    });
    let columns: Vec<String> = columns.unwrap_or_default();
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].contains(column) {
            let what =
                format!("{}: two columns are named `{column}`: give one of them another name with AS", named("query"));
            return Err(PlanError::Wrong(what));
        }
    }
    let only = match columns.as_slice() {
        [] => return Err(PlanError::Wrong(format!("{}: it has no columns", named("query")))),
        [column] => {
            let asked = run(format!(
                "SELECT pg_typeof(q.{})::text FROM (SELECT 1) one LEFT JOIN (SELECT * FROM (\n{query}\n) q LIMIT 0) q ON true",
                quoted(column)
            ));
            let rows = rows(client, &asked).await.map_err(|error| refused(&error, &named("query"), "", 0))?;
            Some(only_column(column, rows.first().and_then(|row| row.get(0)).unwrap_or_default()))
        }
        _ => None,
    };
    let mut value = ParameterKind::Text;
    for (name, statement, more) in [("upsert", upsert, 1), ("delete", delete, 0)] {
        let Some(statement) = statement else { continue };
        let found = prepared(client, statement, &named(name)).await?;
        if found.len() != types.len() + more {
            let value = if more == 1 { ", then the value" } else { "" };
            return Err(PlanError::Wrong(format!(
                "{}: it has {} parameters: write those of the query ({}){value}",
                named(name),
                found.len(),
                types.len()
            )));
        }
        if more == 1 {
            value = found.last().map_or(value, |name| ParameterKind::of(name));
        }
    }
    let types: Vec<&str> = types.iter().map(String::as_str).collect();
    Ok(Lookup {
        prefix: prefix.clone(),
        parameters: types.iter().map(|name| ParameterKind::of(name)).collect(),
        one: read_one(query, types.len(), only.as_ref(), *all_rows),
        many: None,
        probe: probe(&types),
        is_json: *all_rows || matches!(only, None | Some(OnlyColumn::Json(_))),
        writes: Writes::Statements { upsert: upsert.clone(), delete: delete.clone(), value },
        is_watched: !depends_on.is_empty(),
    })
}

fn only_column(name: &str, type_name: &str) -> OnlyColumn {
    match type_name {
        "bytea" => OnlyColumn::Bytes(name.to_owned()),
        "json" | "jsonb" => OnlyColumn::Json(name.to_owned()),
        _ => OnlyColumn::Other(name.to_owned()),
    }
}

/// What a check that was broken off has left in a session of a pooler is not in the way.
fn statement_name() -> String {
    format!("larder_{:016x}", fastrand::u64(..))
}

fn probe(types: &[&str]) -> String {
    let casts: Vec<_> = types.iter().enumerate().map(|(at, name)| format!("${}::{name}", at + 1)).collect();
    format!("SELECT {}", casts.join(", "))
}

/// Checks a statement; the types of its parameters.
async fn prepared(client: &Client, statement: &str, name: &str) -> Result<Vec<String>, PlanError> {
    let check = statement_name();
    let before = format!("PREPARE {check} AS ");
    let failed = |error: Error| refused(&error, name, statement, before.len());
    client.simple_query("BEGIN READ ONLY").await.map_err(failed)?;
    // On its own: an error then says where.
    client.simple_query(&format!("{before}{statement}")).await.map_err(failed)?;
    let asked = format!(
        "SELECT unnest(parameter_types)::regtype::text FROM pg_prepared_statements WHERE name = '{check}'; \
         DEALLOCATE {check}; COMMIT"
    );
    let types = rows(client, &asked);
    let types = types.await.map_err(failed)?;
    let types: Vec<String> = types.iter().map(|row| row.get(0).unwrap_or_default().to_owned()).collect();
    match types.iter().position(|name| name.starts_with("any") || matches!(name.as_str(), "internal" | "void")) {
        Some(at) => Err(PlanError::Wrong(format!("{name}: ${} has the type {}, which no text has", at + 1, types[at]))),
        None => Ok(types),
    }
}

async fn rows(client: &Client, statement: &str) -> Result<Vec<SimpleQueryRow>, Error> {
    let messages = client.simple_query(statement).await?;
    Ok(messages
        .into_iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        })
        .collect())
}

/// The database's own message, and its place in the text of the settings.
fn refused(error: &Error, name: &str, text: &str, before: usize) -> PlanError {
    let Some(refusal) = error.as_db_error() else { return PlanError::Unreachable(describe(error)) };
    let code = refusal.code().code();
    if code.starts_with("08") || code.starts_with("57") || code.starts_with("53") {
        return PlanError::Unreachable(describe(error));
    }
    let at = match refusal.position() {
        Some(ErrorPosition::Original(at)) => usize::try_from(*at).unwrap_or(0).checked_sub(before + 1),
        _ => None,
    };
    let place = at.filter(|_| !text.is_empty()).map_or(String::new(), |at| {
        // Characters, from 0.
        let before: String = text.chars().take(at).collect();
        let line = before.matches('\n').count() + 1;
        let rest: String = text.chars().skip(at).take(20).take_while(|c| *c != '\n').collect();
        format!(" (line {line}, at `{rest}`)")
    });
    PlanError::Wrong(format!("{name}: {}{place}", describe(error)))
}
