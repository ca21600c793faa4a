//! Which commands the clients of a listener may call: `deny-commands` and `allow-commands`.
use super::{
    command::{Command, Flags},
    command_error::CommandError,
    command_table::COMMANDS,
};
use crate::{
    config::{AccessSettings, Categories, Settings},
    source::UpstreamCommand,
};
use larder_proto::resp::Args;
use std::{borrow::Cow, sync::Arc};

/// The rules of one listener, worked out for each row of the table.
#[derive(Debug)]
pub struct CommandAccess {
    settings: AccessSettings,
    /// Any command is refused.
    restricts: bool,
    /// By the command's index.
    passes: Box<[bool]>,
}

impl CommandAccess {
    /// Of the top level's listeners, then of each named one.
    pub fn of_listeners(settings: &Settings) -> Vec<Arc<CommandAccess>> {
        let named = settings.listeners.iter().map(|listener| &listener.access);
        [&settings.access].into_iter().chain(named).map(|access| Arc::new(CommandAccess::new(access))).collect()
    }
    fn new(settings: &AccessSettings) -> CommandAccess {
        let passes = |command: &Command| {
            command.flags.has(Flags::NO_AUTH) || settings.refuses(command.name, Some(command.categories())).is_none()
        };
        CommandAccess {
            restricts: settings.restricts(),
            passes: COMMANDS.iter().map(passes).collect(),
            settings: settings.clone(),
        }
    }
    /// May it refuse any command?
    pub(super) fn restricts(&self) -> bool {
        self.restricts
    }
    /// May a command of ours be called?
    #[inline]
    pub(super) fn passes(&self, command: &Command) -> bool {
        self.passes[usize::from(command.index)]
    }
    /// `forward-admin`.
    pub(super) fn forwards_admin(&self) -> bool {
        self.settings.forward_admin
    }
    /// Refuses a command of ours that may not be called.
    pub(super) fn check(&self, command: &Command) -> Result<(), CommandError> {
        match self.passes(command) {
            true => Ok(()),
            false => Err(refusal(command.name, self.settings.refuses(command.name, Some(command.categories())))),
        }
    }
    /// The same for a command that only the source knows, by its row of the source's table.
    pub(super) fn check_forwarded(&self, args: Args<'_>, row: Option<&UpstreamCommand>) -> Result<(), CommandError> {
        if !self.restricts {
            return Ok(());
        }
        let lower = |part: &[u8]| String::from_utf8_lossy(part).to_ascii_lowercase();
        let name: Cow<'_, str> = match (row, args.get(1)) {
            (Some(row), _) => Cow::Borrowed(&row.name),
            // What follows may be a subcommand's name.
            (None, Some(sub)) => format!("{}|{}", lower(&args[0]), lower(sub)).into(),
            (None, None) => lower(&args[0]).into(),
        };
        match self.settings.refuses(&name, row.map(|row| row.categories)) {
            None => Ok(()),
            refused => Err(refusal(&name, refused)),
        }
    }
}

/// In the words of Redis, which clients know by their first.
fn refusal(name: &str, setting: Option<&str>) -> CommandError {
    let setting = setting.unwrap_or("deny-commands");
    CommandError::Told(
        format!("NOPERM this listener has no permissions to run the '{name}' command (setting {setting})").into_bytes(),
    )
}

/// Redis's categories that belong to a group of commands.
const GROUPS: [(&str, &[&str]); 7] = [
    ("string", &["string"]),
    ("generic", &["keyspace"]),
    ("transactions", &["transaction"]),
    ("connection", &["connection"]),
    ("pubsub", &["pubsub"]),
    ("scripting", &["scripting"]),
    ("cluster", &[]),
];
/// What Redis's table says beyond what follows from group and flags.
const MORE: [(&str, &[&str]); 17] = [
    ("keys", &["dangerous"]),
    ("flushall", &["keyspace", "dangerous"]),
    ("flushdb", &["keyspace", "dangerous"]),
    ("info", &["dangerous"]),
    ("role", &["admin", "dangerous"]),
    ("dbsize", &["keyspace"]),
    ("command", &["connection"]),
    ("command|count", &["connection"]),
    ("command|docs", &["connection"]),
    ("command|getkeys", &["connection"]),
    ("command|help", &["connection"]),
    ("command|info", &["connection"]),
    ("command|list", &["connection"]),
    ("wait", &["connection"]),
    ("readonly", &["connection"]),
    ("readwrite", &["connection"]),
    ("function|flush", &["write"]),
];

impl Command {
    /// Redis's ACL categories of this command.
    fn categories(&self) -> Categories {
        let flag = |flag, name| self.flags.has(flag).then_some(name);
        let by_flags = [
            flag(Flags::WRITE, "write"),
            flag(Flags::READONLY, "read"),
            flag(Flags::ADMIN, "admin"),
            flag(Flags::ADMIN, "dangerous"),
            flag(Flags::PUBSUB, "pubsub"),
            Some(if self.flags.has(Flags::FAST) { "fast" } else { "slow" }),
        ];
        let listed = |list: &'static [(&str, &[&str])], name: &str| {
            list.iter().find(|(listed, _)| *listed == name).map_or(&[][..], |(_, names)| names)
        };
        let by_group = listed(&GROUPS, self.group).iter().chain(listed(&MORE, self.name)).copied();
        by_flags.into_iter().flatten().chain(by_group).filter_map(Categories::named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::CommandList, redis::tests::Redis};

    #[test]
    fn our_categories_are_those_of_redis() {
        let redis = Redis::start();
        let mut direct = redis.connect();
        let all = direct.say("ACL CAT");
        let all: Vec<&str> = all.lines().skip(2).step_by(2).collect();
        assert!(all.len() > 20 && all.contains(&"dangerous"), "{all:?}");
        // More than Redis's, for the sake of one rule for all.
        let extra = [("wait", "keyspace"), ("pubsub|help", "pubsub")];
        let mut compared = 0;
        for command in COMMANDS.iter().filter(|command| !command.is_parent) {
            let theirs = direct.say(&format!("COMMAND INFO {}", command.name));
            // It may be newer than that server, and is shown with its subcommands where that server has some.
            if !theirs.contains(command.name) || theirs.contains(&format!("{}|", command.name)) {
                continue;
            }
            compared += 1;
            for category in &all {
                let list = CommandList::of([format!("@{category}").as_str()]);
                let settings = AccessSettings { deny_commands: list, ..AccessSettings::default() };
                let ours = settings.refuses(command.name, Some(command.categories())).is_some();
                let theirs =
                    theirs.contains(&format!("+@{category}\r\n")) || extra.contains(&(command.name, *category));
                assert_eq!(ours, theirs, "{} in @{category}", command.name);
            }
        }
        assert!(compared > 100, "{compared}");
    }
}
