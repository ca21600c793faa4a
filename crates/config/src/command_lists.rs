//! Lists of commands as settings name them: by name, by subcommand, and by Redis's categories
//! (`@dangerous`).
use super::nearest_name::nearest;

/// Redis's ACL categories, those of its modules included, in the order of their bits.
const CATEGORIES: [&str; 30] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    "json",
    "search",
    "timeseries",
    "bloom",
    "cuckoo",
    "cms",
    "topk",
    "tdigest",
    "vectorset",
];
/// The name that stands for every command.
const ALL: &str = "all";
/// Longest name of a command; Redis's longest has 34 characters.
const MAX_NAME: usize = 128;

/// A set of categories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Categories(u32);
impl Categories {
    /// The one with this name, without the `@`.
    pub fn named(name: &str) -> Option<Categories> {
        let bit = CATEGORIES.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(Categories(1 << bit))
    }
    /// The names of all categories, without the `@`.
    pub fn names() -> impl Iterator<Item = &'static str> {
        CATEGORIES.into_iter()
    }
    /// Both.
    #[must_use]
    pub fn with(self, other: Categories) -> Categories {
        Categories(self.0 | other.0)
    }
    /// Do they share one?
    pub fn meets(self, other: Categories) -> bool {
        self.0 & other.0 != 0
    }
}
impl FromIterator<Categories> for Categories {
    fn from_iter<I: IntoIterator<Item = Categories>>(all: I) -> Categories {
        all.into_iter().fold(Categories::default(), Categories::with)
    }
}

/// How exactly an entry of a list names a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Exactness {
    /// `@all`
    All,
    /// `@write`
    Category,
    /// `config`
    Command,
    /// `config|set`
    Subcommand,
}

/// Commands, as `deny-commands` and `allow-commands` list them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandList {
    all: bool,
    categories: Categories,
    /// In lower case; a subcommand behind its parent's name and `|`.
    names: Vec<String>,
}
impl CommandList {
    /// Reads one entry: `get`, `config|set`, `@write` or `@all`; in lower case.
    pub(super) fn check(text: &str) -> Result<String, String> {
        let text = text.to_ascii_lowercase();
        if let Some(category) = text.strip_prefix('@') {
            if category == ALL || Categories::named(category).is_some() {
                return Ok(text);
            }
            let near = nearest(category, CATEGORIES.into_iter().chain([ALL]));
            let near = near.map_or(String::new(), |near| format!(", did you mean @{near}?"));
            return Err(format!("`{text}` is not a category of commands{near}"));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.|".contains(c);
        let parts = text.split('|').filter(|part| !part.is_empty()).count();
        match text.chars().all(allowed) && text.len() <= MAX_NAME && parts == text.split('|').count() && parts <= 2 {
            true => Ok(text),
            false => Err(format!("`{text}` is not a command: write get, config|set, @dangerous or @all")),
        }
    }
    /// Of checked entries.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a str>) -> CommandList {
        let mut list = CommandList::default();
        for entry in entries {
            match entry.strip_prefix('@') {
                Some(ALL) => list.all = true,
                Some(category) => {
                    list.categories = list.categories.with(Categories::named(category).unwrap_or_default());
                }
                None => list.names.push(entry.to_owned()),
            }
        }
        list
    }
    /// Whether it lists the command, by its name or by one of its categories. `name` is in lower
    /// case.
    pub fn lists(&self, name: &str, categories: Categories) -> bool {
        self.names(name, |listed| categories.meets(listed)).is_some()
    }
    /// Does it list nothing?
    pub fn is_empty(&self) -> bool {
        *self == CommandList::default()
    }
    /// How exactly it names the command, if it does. `name` is in lower case; `among`: is the
    /// command in one of these categories?
    fn names(&self, name: &str, among: impl FnOnce(Categories) -> bool) -> Option<Exactness> {
        let parent = name.split('|').next().unwrap_or(name);
        let has = |name: &str| self.names.iter().any(|listed| listed == name);
        if parent != name && has(name) {
            Some(Exactness::Subcommand)
        } else if has(parent) {
            Some(Exactness::Command)
        } else if self.categories != Categories::default() && among(self.categories) {
            Some(Exactness::Category)
        } else {
            self.all.then_some(Exactness::All)
        }
    }
}

/// What clients of a listener may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessSettings {
    pub forward_admin: bool,
    pub deny_commands: CommandList,
    /// Empty: all.
    pub allow_commands: CommandList,
}
impl AccessSettings {
    /// The setting that refuses a command, if one does: of the entries that name it the most exact
    /// one counts, and of two that are as exact that of `deny-commands`. `name` is in lower
    /// case, a subcommand behind its parent's name and `|`. Of a command whose categories
    /// are not known (`None`) the worst is believed.
    pub fn refuses(&self, name: &str, categories: Option<Categories>) -> Option<&'static str> {
        let denied = self.deny_commands.names(name, |listed| categories.is_none_or(|its| its.meets(listed)));
        let allowed = self.allow_commands.names(name, |listed| categories.is_some_and(|its| its.meets(listed)));
        match (denied, allowed) {
            (None, None) if !self.allow_commands.is_empty() => Some("allow-commands"),
            (Some(_), _) if denied >= allowed => Some("deny-commands"),
            _ => None,
        }
    }
    /// Does it refuse any command?
    pub fn restricts(&self) -> bool {
        !self.deny_commands.is_empty() || !self.allow_commands.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn categories(names: &[&str]) -> Option<Categories> {
        Some(names.iter().map(|name| Categories::named(name).expect("a category")).collect())
    }
    fn access(deny: &[&str], allow: &[&str]) -> AccessSettings {
        let list = |of: &[&str]| CommandList::of(of.iter().copied());
        AccessSettings { deny_commands: list(deny), allow_commands: list(allow), ..AccessSettings::default() }
    }

    #[test]
    fn the_most_exact_entry_counts_and_deny_among_equals() {
        let read = categories(&["read", "string"]);
        let dangerous = categories(&["admin", "dangerous"]);
        for (deny, allow, name, of, refused) in [
            (&[][..], &[][..], "get", read, None),
            (&["get"], &[], "get", read, Some("deny-commands")),
            (&["get"], &[], "set", read, None),
            (&["@read"], &[], "get", read, Some("deny-commands")),
            (&["@read"], &["get"], "get", read, None),
            (&["@read"], &["get"], "mget", read, Some("deny-commands")),
            (&["@write"], &["get"], "ping", categories(&[]), Some("allow-commands")),
            (&["get"], &["get"], "get", read, Some("deny-commands")),
            (&["get"], &["@read"], "get", read, Some("deny-commands")),
            (&["@string"], &["@read"], "get", read, Some("deny-commands")),
            (&["@dangerous"], &["@all", "config|get"], "config|get", dangerous, None),
            (&["@dangerous"], &["@all", "config|get"], "config|set", dangerous, Some("deny-commands")),
            (&["@dangerous"], &["@all", "config|get"], "get", read, None),
            (&["config"], &["config|get"], "config|get", dangerous, None),
            (&["config|set"], &["config"], "config|set", dangerous, Some("deny-commands")),
            (&["config|set"], &[], "config|get", dangerous, None),
            (&["@all"], &["@read"], "get", read, None),
            (&["@all"], &["@read"], "config|set", dangerous, Some("deny-commands")),
            // Of what is not known the worst is believed.
            (&["@json"], &[], "new.command", None, Some("deny-commands")),
            (&[], &["@read"], "new.command", None, Some("allow-commands")),
            (&[], &["@all"], "new.command", None, None),
            (&["get"], &[], "new.command", None, None),
        ] {
            assert_eq!(access(deny, allow).refuses(name, of), refused, "{name}: {deny:?} {allow:?}");
        }
        assert!(!access(&[], &[]).restricts() && access(&[], &["@all"]).restricts());
    }

    #[test]
    fn entries() {
        for (text, read) in [("GET", "get"), ("Config|SET", "config|set"), ("@ALL", "@all"), ("json.get", "json.get")] {
            assert_eq!(CommandList::check(text).as_deref(), Ok(read));
        }
        for (text, error) in [
            ("@dangerus", "`@dangerus` is not a category of commands, did you mean @dangerous?"),
            ("@xyzzy", "`@xyzzy` is not a category of commands"),
            ("config set", "`config set` is not a command: write get, config|set, @dangerous or @all"),
            ("a|b|c", "`a|b|c` is not a command: write get, config|set, @dangerous or @all"),
            ("config|", "`config|` is not a command: write get, config|set, @dangerous or @all"),
        ] {
            assert_eq!(CommandList::check(text), Err(error.to_owned()));
        }
    }
}
