//! The rules `+get`, `-config|set`, `+@read`, `-@all` of one selector, in order. Of the rules that
//! name a command the last one counts.
use super::{
    command_catalog::{CatalogRow, CommandCatalog, parent},
    command_request::CommandRequest,
    rule_error::RuleError,
};
use larder_config::Categories;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    allows: bool,
    commands: Commands,
}
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Commands {
    All,
    Category(Categories, Box<str>),
    /// A command with its subcommands.
    Command(Box<str>),
    /// `parent|name`: a subcommand, or a command with this first argument.
    Part(Box<str>),
}

/// Which commands a selector allows. None without rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommandRules(Vec<Rule>);

impl CommandRules {
    /// Adds a rule: `+get`, `-get`, `+@read`, `+config|get`, `+select|0`.
    pub(super) fn add(&mut self, text: &str, catalog: &CommandCatalog) -> Result<(), RuleError> {
        let lower = text.to_ascii_lowercase();
        let (allows, name) = match lower.strip_prefix('+') {
            Some(name) => (true, name),
            None => (false, lower.strip_prefix('-').ok_or(RuleError::Syntax)?),
        };
        let commands = match name.strip_prefix('@') {
            Some("all") => Commands::All,
            Some(category) => {
                Commands::Category(Categories::named(category).ok_or(RuleError::UnknownCommand)?, category.into())
            }
            None => named(name, allows, catalog)?,
        };
        self.push(Rule { allows, commands });
        Ok(())
    }
    /// Adds a rule of another server, which may have commands and categories that the catalog does
    /// not know. A category that Larder does not knows: to allow it allows nothing, to forbid
    /// it forbids everything.
    pub(super) fn add_foreign(&mut self, text: &[u8]) -> Result<(), RuleError> {
        let lower = String::from_utf8_lossy(text).to_ascii_lowercase();
        let allows = lower.starts_with('+');
        let name = &lower[1..];
        let commands = match name.strip_prefix('@') {
            Some(_) if allows => return Ok(()),
            Some(_) => Commands::All,
            None if name.contains('|') => Commands::Part(name.into()),
            None => Commands::Command(name.into()),
        };
        self.push(Rule { allows, commands });
        Ok(())
    }
    pub(super) fn allow_all(&mut self, allows: bool) {
        self.push(Rule { allows, commands: Commands::All });
    }
    /// Adds a rule in front of which others may stand that say nothing any more, until they are
    /// [settled](CommandRules::settle).
    fn push(&mut self, rule: Rule) {
        self.0.push(rule);
    }
    /// Drops the rules that say nothing because a later one is about the same commands, or more.
    pub(super) fn settle(&mut self) {
        let mut later = HashSet::new();
        let mut left = Vec::new();
        for rule in std::mem::take(&mut self.0).into_iter().rev() {
            let is_all = rule.commands == Commands::All;
            // No command is the state without rules.
            if is_all && !rule.allows {
                break;
            }
            let of_part = match &rule.commands {
                Commands::Part(part) => parent(part).map(|name| Commands::Command(name.into())),
                _ => None,
            };
            if of_part.is_none_or(|command| !later.contains(&command)) && later.insert(rule.commands.clone()) {
                left.push(rule);
            }
            if is_all {
                break;
            }
        }
        left.reverse();
        self.0 = left;
    }
    /// Whether the command may run.
    pub(super) fn allow(&self, request: &CommandRequest<'_>) -> bool {
        self.0.iter().rev().find(|rule| rule.is_about(request)).is_some_and(|rule| rule.allows)
    }
    /// Whether every command may run, including those that do not exist yet.
    pub(super) fn allow_everything(&self) -> bool {
        matches!(self.0.first(), Some(Rule { commands: Commands::All, .. })) && self.0.iter().all(|rule| rule.allows)
    }
    pub(super) fn by_name(&self) -> RulesByName<'_> {
        let mut all = RulesByName::default();
        for (at, rule) in self.0.iter().enumerate() {
            let numbered = (at, rule.allows);
            match &rule.commands {
                Commands::All | Commands::Category(..) => all.of_many.push((at, rule)),
                Commands::Command(name) => {
                    all.of_commands.insert(name, numbered);
                }
                Commands::Part(part) => {
                    all.of_parts.insert(part, numbered);
                    if let Some((of, argument)) = part.rsplit_once('|') {
                        all.arguments.entry(of).or_default().push((argument, numbered));
                    }
                }
            }
        }
        all
    }
    /// The rules as ACL LIST shows them.
    pub(super) fn text(&self) -> String {
        let mut text = match self.0.first() {
            Some(Rule { commands: Commands::All, .. }) => String::new(),
            _ => "-@all".to_owned(),
        };
        for Rule { allows, commands } in &self.0 {
            let (at, name) = match commands {
                Commands::All => ("@", "all"),
                Commands::Category(_, name) => ("@", &**name),
                Commands::Command(name) | Commands::Part(name) => ("", &**name),
            };
            let space = if text.is_empty() { "" } else { " " };
            let sign = if *allows { "+" } else { "-" };
            text.extend([space, sign, at, name]);
        }
        text
    }
}

/// The number of a rule, and whether it allows.
type Verdict = (usize, bool);

/// The rules of a selector by what they name.
#[derive(Debug, Default)]
pub(super) struct RulesByName<'r> {
    of_many: Vec<(usize, &'r Rule)>,
    of_commands: HashMap<&'r str, Verdict>,
    of_parts: HashMap<&'r str, Verdict>,
    arguments: HashMap<&'r str, Vec<(&'r str, Verdict)>>,
}

impl RulesByName<'_> {
    /// Whether a command may run, and the first arguments with which rules name it, with whether it
    /// may run with them. The last rule counts.
    pub(super) fn of(&self, row: &CatalogRow) -> (bool, HashMap<Box<str>, bool>) {
        let request =
            CommandRequest { place: None, name: row.name, categories: Some(row.categories), first_argument: None };
        let of_many = self.of_many.iter().rev().find(|(_, rule)| rule.is_about(&request));
        let of_command = self.of_commands.get(parent(row.name).unwrap_or(row.name)).copied();
        let of_part = self.of_parts.get(row.name).copied();
        let last = [of_many.map(|(at, rule)| (*at, rule.allows)), of_command, of_part].into_iter().flatten().max();
        let arguments = self.arguments.get(row.name).into_iter().flatten();
        let with = |(argument, rule): &(&str, (usize, bool))| {
            ((*argument).into(), last.map_or(rule.1, |last| last.max(*rule).1))
        };
        (last.is_some_and(|(_, allows)| allows), arguments.map(with).collect())
    }
}

fn named(name: &str, allows: bool, catalog: &CommandCatalog) -> Result<Commands, RuleError> {
    let Some((first, rest)) = name.split_once('|') else {
        return match catalog.is_command(name) {
            true => Ok(Commands::Command(name.into())),
            false => Err(RuleError::UnknownCommand),
        };
    };
    if !catalog.is_command(first) {
        return Err(RuleError::UnknownCommand);
    }
    if rest.contains('|') {
        let is_argument_of_sub = allows && catalog.place(name.rsplit_once('|').map_or(name, |(sub, _)| sub)).is_some();
        return Err(if is_argument_of_sub { RuleError::ArgumentOfSubcommand } else { RuleError::UnknownCommand });
    }
    if rest.is_empty() {
        return Err(RuleError::Syntax);
    }
    let is_container = CommandCatalog::is_container_of_redis(first);
    // The table has the subcommands of its containers. A command without subcommands takes a first
    // argument, which can only be allowed.
    let may_be = match catalog.is_container(first) {
        true => catalog.place(name).is_some(),
        false => allows || is_container || catalog.place(first).is_none(),
    };
    if may_be { Ok(Commands::Part(name.into())) } else { Err(RuleError::UnknownCommand) }
}

impl Rule {
    fn is_about(&self, request: &CommandRequest<'_>) -> bool {
        match &self.commands {
            Commands::All => true,
            // Of a command whose categories are not known the worst is believed.
            Commands::Category(category, _) => request.categories.map_or(!self.allows, |its| its.meets(*category)),
            Commands::Command(name) => parent(request.name).unwrap_or(request.name) == &**name,
            Commands::Part(part) => {
                let is_argument = || {
                    let (of, argument) = part.rsplit_once('|').unwrap_or((part, ""));
                    of == request.name
                        && request.first_argument.is_some_and(|first| first.eq_ignore_ascii_case(argument.as_bytes()))
                };
                request.name == &**part || is_argument()
            }
        }
    }
}
