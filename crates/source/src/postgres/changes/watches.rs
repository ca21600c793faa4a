//! What is watched: which change announces which keys, and what the database must be set to for it.
use super::wire::{Refusal, Row, Wire};
use crate::postgres::lookup::{literal, quoted};
use larder_config::{PostgresChanges, PostgresUrl};
use std::{collections::HashMap, fmt::Write as _};

/// What is left where changes cannot be announced.
const OR_OFF: &str = "or changes=off, which keeps copies for `ttl`";

/// A change of a row announces keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::postgres) struct Watch {
    /// The prefix of the keys.
    pub(in crate::postgres) prefix: String,
    /// As SQL names it: with its schema, or found by `search_path`.
    pub(in crate::postgres) table: String,
    pub(in crate::postgres) columns: Columns,
}

/// The columns of a row that make a key: the prefix and their values, old and new, with `:` between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::postgres) enum Columns {
    PrimaryKey,
    Named(Vec<String>),
    /// A change announces all keys with the prefix.
    Any,
}
impl Columns {
    pub(super) fn names(&self) -> &[String] {
        match self {
            Columns::Named(names) => names,
            Columns::PrimaryKey | Columns::Any => &[],
        }
    }
    /// As the argument of the triggers' function: an array.
    fn argument(&self) -> Option<String> {
        let names = self.names().iter().map(|name| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")));
        let names: Vec<_> = names.collect();
        (*self != Columns::Any).then(|| format!("{{{}}}", names.join(",")))
    }
}

impl Watch {
    /// What the settings of a source watch.
    pub(in crate::postgres) fn all(url: &PostgresUrl) -> Vec<Watch> {
        if url.changes == PostgresChanges::Off {
            return Vec::new();
        }
        let of_table = url.table.iter().map(|table| Watch {
            prefix: String::new(),
            table: table.clone(),
            columns: url.key.clone().map_or(Columns::PrimaryKey, |key| Columns::Named(vec![key])),
        });
        let of_queries = url.options.queries.iter().flat_map(|query| {
            // The value of a column is a key only if the key has no other part.
            let has_one_part = query.query.contains("$1") && !query.query.contains("$2");
            query.depends_on.iter().map(move |of| {
                let (table, column) = of.rsplit_once('.').unwrap_or((of, "*"));
                let columns = match column {
                    column if column != "*" && has_one_part => Columns::Named(vec![column.to_owned()]),
                    _ => Columns::Any,
                };
                Watch { prefix: query.prefix.clone(), table: table.to_owned(), columns }
            })
        });
        of_table.chain(of_queries).collect()
    }
}

/// How the values of a column are written. A key that names the same value in another way (`042`)
/// is not the key that a change announces, so it is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    Integer,
    Uuid,
    /// Each text is another value.
    Text,
}
impl KeyKind {
    fn of_type(name: &str) -> Option<KeyKind> {
        match name {
            "int2" | "int4" | "int8" | "oid" => Some(KeyKind::Integer),
            "uuid" => Some(KeyKind::Uuid),
            "text" | "varchar" | "name" | "enum" => Some(KeyKind::Text),
            _ => None,
        }
    }
    /// Whether the database writes the value like this.
    pub(super) fn writes(self, text: &[u8]) -> bool {
        match self {
            KeyKind::Integer => match text.strip_prefix(b"-").unwrap_or(text) {
                [b'0'] => text == b"0",
                [first, rest @ ..] => (b'1'..=b'9').contains(first) && rest.iter().all(u8::is_ascii_digit),
                [] => false,
            },
            KeyKind::Uuid => {
                let is_right = |(at, byte): (usize, &u8)| match at {
                    8 | 13 | 18 | 23 => *byte == b'-',
                    _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
                };
                text.len() == 36 && text.iter().enumerate().all(is_right)
            }
            KeyKind::Text => true,
        }
    }
}

/// The watched tables as the database has them. Compared each second: a change of it is a change of
/// the schema, which the stream does not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tables(Vec<Row>);

/// The query that reads them. `publication`: the one that must have them; `None`: triggers announce
/// changes.
pub(super) fn tables_query(watches: &[Watch], publication: Option<&str>) -> String {
    let columns = rows_of(watches).map(|(watch, column)| (&watch.table, column.map_or("NULL".to_owned(), literal)));
    let values =
        columns.enumerate().map(|(number, (table, column))| format!("({number}, {}, {column})", literal(table)));
    let values = values.collect::<Vec<_>>().join(", ");
    let publication = literal(publication.unwrap_or_default());
    // Views of the publication have more columns from version to version, hence to_jsonb. The first
    // `indnkeyatts` columns of an index are its key. Changes do not carry those that it includes.
    format!(
        "WITH w(n, tab, col) AS (VALUES {values}), \
         tree AS (SELECT w.n, p.relid FROM w, pg_partition_tree(to_regclass(w.tab)) p WHERE p.isleaf \
           UNION SELECT w.n, c.oid FROM w JOIN pg_class c ON c.oid = to_regclass(w.tab) WHERE c.relkind <> 'p') \
         SELECT c.oid::text, c.relkind::text, c.relpersistence::text, (w.col IS NULL OR k.attnum IS NOT NULL)::text, \
         CASE WHEN t.typtype = 'e' THEN 'enum' WHEN l.collisdeterministic IS FALSE THEN 'nondeterministic' \
           ELSE t.typname::text END, \
         (SELECT string_agg(r.oid::regclass::text, ', ') FROM tree JOIN pg_class r ON r.oid = tree.relid \
           WHERE tree.n = w.n AND w.col IS NOT NULL AND r.relreplident <> 'f' AND NOT EXISTS ( \
             SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = r.oid AND a.attname = w.col \
             WHERE i.indrelid = r.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) \
             AND CASE r.relreplident WHEN 'i' THEN i.indisreplident WHEN 'd' THEN i.indisprimary ELSE false END)), \
         p.pubname::text, to_jsonb(p) ->> 'rowfilter', \
         (w.col IS NULL OR coalesce(to_jsonb(p) -> 'attnames' ? w.col, true))::text, \
         quote_ident(n.nspname) || '.' || quote_ident(c.relname), \
         (SELECT string_agg(concat_ws(':', tree.relid, pg_relation_filenode(tree.relid)), ',' ORDER BY tree.relid) \
           FROM tree WHERE tree.n = w.n), \
         (SELECT string_agg(concat_ws(':', attnum, attname, atttypid, atttypmod), ',' ORDER BY attnum) \
           FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped), \
         (SELECT count(*) FROM pg_trigger g WHERE g.tgrelid = c.oid AND g.tgname LIKE 'larder\\_%' \
           AND g.tgenabled <> 'D')::text, \
         (SELECT concat_ws(',', pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot) FROM pg_publication \
           WHERE pubname = {publication}) \
         FROM w LEFT JOIN pg_class c ON c.oid = to_regclass(w.tab) LEFT JOIN pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_attribute k ON k.attrelid = c.oid AND k.attname = w.col AND k.attnum > 0 AND NOT k.attisdropped \
         LEFT JOIN pg_type t ON t.oid = k.atttypid LEFT JOIN pg_collation l ON l.oid = k.attcollation \
         LEFT JOIN pg_publication_tables p ON p.pubname = {publication} AND p.schemaname = n.nspname \
           AND p.tablename = c.relname ORDER BY w.n"
    )
}

/// The rows of the query: one for each column, one for a watch without columns.
fn rows_of(watches: &[Watch]) -> impl Iterator<Item = (&Watch, Option<&str>)> {
    watches.iter().flat_map(|watch| {
        let names = watch.columns.names();
        let named = names.iter().map(move |name| (watch, Some(name.as_str())));
        named.chain(names.is_empty().then_some((watch, None)))
    })
}

/// The watches with the names of their columns.
pub(super) async fn named(control: &mut Wire, watches: &[Watch]) -> Result<Vec<Watch>, Refusal> {
    let mut named = Vec::new();
    for watch in watches {
        let mut watch = watch.clone();
        if watch.columns == Columns::PrimaryKey {
            let query = format!(
                "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid \
                 AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) \
                 WHERE i.indrelid = to_regclass({}) AND i.indisprimary \
                 ORDER BY array_position(i.indkey::int2[], a.attnum)",
                literal(&watch.table)
            );
            let rows = control.query(&query).await?;
            let names: Vec<String> = rows.into_iter().filter_map(|row| row.into_iter().next()?).collect();
            watch.columns = if names.is_empty() { Columns::Any } else { Columns::Named(names) };
        }
        named.push(watch);
    }
    Ok(named)
}

/// A watched table, checked.
pub(super) struct Checked {
    pub(super) oid: u32,
    /// Of the columns.
    pub(super) kinds: Vec<KeyKind>,
}

impl Tables {
    pub(super) fn new(rows: Vec<Row>) -> Tables {
        Tables(rows)
    }

    /// The tables that are not in the publication, as SQL names them.
    fn unpublished(&self) -> Vec<&str> {
        let mut names: Vec<_> =
            self.0.iter().filter(|row| text(row, 6).is_none()).filter_map(|row| text(row, 9)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What is wrong with them; else one for each watch.
    ///
    /// # Errors
    /// Names the table.
    pub(super) fn check(&self, watches: &[Watch]) -> Result<Vec<Checked>, String> {
        let mut rows = self.0.iter();
        let check = |watch: &Watch| {
            let mut checked = Checked { oid: 0, kinds: Vec::new() };
            for ((_, column), row) in rows_of(std::slice::from_ref(watch)).zip(rows.by_ref()) {
                let (oid, kind) = check_one(&watch.table, column, row)?;
                checked.oid = oid;
                checked.kinds.extend(kind);
            }
            Ok(checked)
        };
        watches.iter().map(check).collect()
    }

    /// Whether changes carry the old keys.
    ///
    /// # Errors
    /// Has the statement that mends it.
    pub(super) fn check_identities(&self, watches: &[Watch]) -> Result<(), String> {
        rows_of(watches).zip(&self.0).try_for_each(|((_, column), row)| check_identity(column, row))
    }

    /// What keeps their changes from being announced.
    ///
    /// # Errors
    /// Has the statement that mends it.
    pub(super) fn check_announced(&self, watches: &[Watch], publication: Option<&str>) -> Result<(), String> {
        for ((watch, column), row) in rows_of(watches).zip(&self.0) {
            let name = text(row, 9).unwrap_or(&watch.table);
            match publication {
                Some(publication) => check_published(column, row, name, publication)?,
                None if text(row, 12) != Some("4") => {
                    return Err(format!("{name} has not the triggers that `larder postgres triggers` prints"));
                }
                None => {}
            }
        }
        Ok(())
    }
}

fn text(row: &Row, at: usize) -> Option<&str> {
    row.get(at)?.as_deref()
}

fn check_one(table: &str, column: Option<&str>, row: &Row) -> Result<(u32, Option<KeyKind>), String> {
    let Some(oid) = text(row, 0).and_then(|oid| oid.parse().ok()) else {
        return Err(format!("depends-on: there is no table {table}"));
    };
    let name = text(row, 9).unwrap_or(table);
    if !matches!(text(row, 1), Some("r" | "p")) {
        return Err(format!("{name} is no table: name the tables that it reads in `depends-on` ({OR_OFF})"));
    }
    if text(row, 2) != Some("p") {
        return Err(format!("changes of {name} are not in the WAL: ALTER TABLE {name} SET LOGGED ({OR_OFF})"));
    }
    let kind = match column {
        None => None,
        Some(column) if text(row, 3) != Some("true") => {
            return Err(format!("depends-on: {name} has no column {column}"));
        }
        Some(column) => {
            let of_type = text(row, 4).unwrap_or_default();
            let kind = KeyKind::of_type(of_type).ok_or_else(|| {
                format!(
                    "{name}.{column} is of type {of_type}, of which a value may be written in several ways, so a change \
                     names no key: use an integer, uuid, text or enum column, or `depends-on` = {table}.* ({OR_OFF})"
                )
            })?;
            Some(kind)
        }
    };
    Ok((oid, kind))
}

fn check_published(column: Option<&str>, row: &Row, name: &str, publication: &str) -> Result<(), String> {
    let publication = quoted(publication);
    let flags: Vec<_> = text(row, 13).unwrap_or_default().split(',').collect();
    if text(row, 1) == Some("p") && flags.get(4) != Some(&"t") {
        return Err(format!(
            "{name} has partitions: ALTER PUBLICATION {publication} SET (publish_via_partition_root = true)"
        ));
    }
    if text(row, 6).is_none() {
        return Err(format!("the publication lacks {name}: ALTER PUBLICATION {publication} ADD TABLE {name}"));
    }
    if text(row, 7).is_some() || text(row, 8) != Some("true") {
        return Err(format!(
            "publication {publication} leaves out rows or columns of {name}: ALTER PUBLICATION {publication} SET TABLE {name}"
        ));
    }
    if flags.iter().take(4).any(|flag| *flag != "t") {
        return Err(format!(
            "the publication leaves out changes: ALTER PUBLICATION {publication} SET (publish = 'insert, update, delete, truncate')"
        ));
    }
    check_identity(column, row)
}

fn check_identity(column: Option<&str>, row: &Row) -> Result<(), String> {
    match (text(row, 5), column) {
        (Some(tables), Some(column)) => Err(format!(
            "changes of {tables} do not carry the old value of {column}: ALTER TABLE {tables} REPLICA IDENTITY FULL \
             (or USING INDEX with a unique index that has {column}; {OR_OFF})"
        )),
        _ => Ok(()),
    }
}

/// Makes the publication where there is none, and adds the tables that it lacks. What is refused is
/// for the check to tell, with the statement.
pub(super) async fn publish(
    control: &mut Wire,
    tables: Tables,
    query: &str,
    publication: &str,
) -> Result<Tables, Refusal> {
    let missing = tables.unpublished().join(", ");
    if missing.is_empty() {
        return Ok(tables);
    }
    let exists = format!("SELECT puballtables::text FROM pg_publication WHERE pubname = {}", literal(publication));
    let name = quoted(publication);
    let statement = match control.query(&exists).await?.first().and_then(|row| row.first()?.as_deref()) {
        None => format!("CREATE PUBLICATION {name} FOR TABLE {missing} WITH (publish_via_partition_root = true)"),
        // It has the partitions, and not the table: the check tells what to do.
        Some("true") => return Ok(tables),
        Some(_) => format!("ALTER PUBLICATION {name} ADD TABLE {missing}"),
    };
    if let Err(refusal) = control.query(&statement).await {
        return Err(Refusal { text: format!("{}: let its owner type: {statement}", refusal.text), ..refusal });
    }
    tracing::info!(%statement, "PostgreSQL: the publication of watched tables was made");
    Ok(Tables::new(control.query(query).await?))
}

/// The statements for `changes=notify`: a function, and triggers of all tables that the sources
/// watch.
pub fn triggers<'u>(sources: impl IntoIterator<Item = &'u PostgresUrl>) -> String {
    let watches: Vec<Watch> = sources.into_iter().flat_map(Watch::all).collect();
    let mut tables: Vec<(&str, Vec<String>)> = Vec::new();
    let mut places = HashMap::new();
    for watch in &watches {
        let at = *places.entry(watch.table.as_str()).or_insert_with(|| {
            tables.push((&watch.table, Vec::new()));
            tables.len() - 1
        });
        if let Some(argument) = watch.columns.argument().filter(|argument| !tables[at].1.contains(argument)) {
            tables[at].1.push(argument);
        }
    }
    let mut sql = String::from(include_str!("triggers.sql"));
    for (table, columns) in tables {
        let arguments = columns.iter().map(|column| literal(column)).collect::<Vec<_>>().join(", ");
        for (event, rows) in [
            ("INSERT", " REFERENCING NEW TABLE AS larder_new"),
            ("UPDATE", " REFERENCING OLD TABLE AS larder_old NEW TABLE AS larder_new"),
            ("DELETE", " REFERENCING OLD TABLE AS larder_old"),
            ("TRUNCATE", ""),
        ] {
            let name = format!("larder_{}", event.to_lowercase());
            let _ = write!(
                sql,
                "\nDROP TRIGGER IF EXISTS {name} ON {table};\nCREATE TRIGGER {name} AFTER {event} ON {table}{rows}\n  \
                 FOR EACH STATEMENT EXECUTE FUNCTION larder_notify({arguments});\n"
            );
        }
    }
    sql.push_str("\nCOMMIT;\n");
    sql
}
