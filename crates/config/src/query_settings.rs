//! The settings of PostgreSQL sources: queries of groups and prefixes, and what belongs to them.
use super::{
    effective_values::{EffectiveSettings, NamedTable, prefix},
    postgres_url::{PostgresOptions, PostgresQuery},
    raw_settings::SettingOrigin,
    source_url::SourceUrl,
};

/// What has a meaning beside a query only.
const OF_A_QUERY: [&str; 4] = ["rows", "depends-on", "upsert", "delete"];

/// A prefix, or a group without its prefixes, and what it says itself: not what it has from its
/// group.
struct Scope<'s> {
    settings: &'s EffectiveSettings,
    group: Option<&'s EffectiveSettings>,
}
impl<'s> Scope<'s> {
    fn says(&self, name: &str) -> bool {
        let own = self.settings.effective(name);
        let inherited = self.group.map(|group| group.effective(name));
        !own.values.is_empty()
            && own.origin != SettingOrigin::Default
            && inherited.is_none_or(|of| of.origin != own.origin)
    }
    fn text(&self, name: &str) -> Option<String> {
        self.settings.text(name).filter(|_| self.says(name)).map(str::to_owned)
    }
    fn problem(&self, name: &str, what: &str) -> String {
        let origin = &self.settings.effective(name).origin;
        format!("{origin}: {}{name}: {what}", prefix(self.settings.table.as_ref()))
    }
    /// What the keys begin with.
    fn prefix(&self) -> &'s str {
        match &self.settings.table {
            Some(NamedTable::Prefix(_, prefix)) => prefix,
            _ => "",
        }
    }
    fn query(&self) -> Option<PostgresQuery> {
        Some(PostgresQuery {
            prefix: self.prefix().to_owned(),
            query: self.text("query")?,
            all_rows: self.text("rows").as_deref() == Some("all"),
            depends_on: match self.says("depends-on") {
                true => self.settings.texts("depends-on").into_iter().map(str::to_owned).collect(),
                false => Vec::new(),
            },
            upsert: self.text("upsert"),
            delete: self.text("delete"),
        })
    }
}

/// A group and its prefixes.
fn scopes_of<'s>(group: &'s EffectiveSettings, all: &'s [EffectiveSettings]) -> Vec<Scope<'s>> {
    let name = match &group.table {
        Some(NamedTable::Group(name)) => Some(name),
        _ => None,
    };
    let of_group =
        |scope: &&EffectiveSettings| matches!(&scope.table, Some(NamedTable::Prefix(of, _)) if of.as_ref() == name);
    let own = Scope { settings: group, group: None };
    let prefixes = all.iter().filter(of_group).map(|settings| Scope { settings, group: Some(group) });
    [own].into_iter().chain(prefixes).collect()
}

/// What the settings say beside the URL.
pub(super) fn postgres_options(group: &EffectiveSettings, all: &[EffectiveSettings]) -> PostgresOptions {
    PostgresOptions {
        connect_timeout: group.duration("source-timeout").map(|timeout| timeout / 2),
        takes_writes: group.text("source-writes") == Some("through"),
        queries: scopes_of(group, all).iter().filter_map(Scope::query).collect(),
    }
}

/// Queries without a database, settings without a query, a database that is not asked for anything.
pub(super) fn check_queries(all: &[EffectiveSettings], problems: &mut Vec<String>) {
    let groups = all.iter().filter(|scope| matches!(scope.table, None | Some(NamedTable::Group(_))));
    for group in groups {
        let scopes = scopes_of(group, all);
        let url = match group.one("source") {
            Some(SourceUrl::Postgres(url)) => Some(url),
            _ => None,
        };
        for scope in &scopes {
            let names = ["query"].into_iter().chain(OF_A_QUERY).filter(|name| scope.says(name));
            for name in names {
                if url.is_none() {
                    problems.push(scope.problem(name, "belongs to a source postgres://USER@HOST/DATABASE"));
                } else if !scope.says("query") {
                    problems.push(scope.problem(name, "belongs to a query: write it beside `query`"));
                }
            }
            for table in scope.query().iter().flat_map(|query| &query.depends_on) {
                let names = table.rsplit_once('.');
                if !names.is_some_and(|(table, column)| !table.is_empty() && !column.is_empty()) {
                    let what = format!("`{table}` names no column: write TABLE.COLUMN, or TABLE.* for any change");
                    problems.push(scope.problem("depends-on", &what));
                }
            }
        }
        let Some(url) = url else { continue };
        match (&url.table, scopes[0].says("query")) {
            (Some(_), true) => {
                problems.push(scopes[0].problem("query", "the source has a table= already: take one of them"));
            }
            (None, false) if !scopes.iter().any(|scope| scope.says("query")) => {
                let what = "nothing says what a key means: add ?table=TABLE to the URL, or set `query`";
                problems.push(scopes[0].problem("source", what));
            }
            _ => {}
        }
        if url.table.is_none() && group.text("source-writes") == Some("through") {
            let what = "needs a table= in the URL; a query takes writes with `upsert` and `delete`";
            problems.push(scopes[0].problem("source-writes", what));
        }
    }
}
