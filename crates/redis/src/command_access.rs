//! Which commands the clients of a listener may call (`deny-commands`, `allow-commands`).
use super::{
    command::{Command, Flags},
    command_lookup::COMMANDS,
    command_outcome::CommandError,
};
use larder_config::{AccessSettings, Categories, Settings};
use larder_proto::resp::Args;
use larder_source::UpstreamCommand;
use std::{borrow::Cow, sync::Arc};

/// The rules of one listener, computed for each row of the table.
#[derive(Debug)]
pub struct CommandAccess {
    settings: AccessSettings,
    /// Whether any command is refused.
    restricts: bool,
    /// Indexed by [`Command::index`].
    passes: Box<[bool]>,
    /// What administers the server needs a login here.
    without_admin: bool,
}

impl CommandAccess {
    /// The rules of the top level's listeners, then those of each named listener.
    pub fn of_listeners(settings: &Settings) -> Vec<Arc<CommandAccess>> {
        let named = settings.listeners.iter().map(|listener| &listener.access);
        [&settings.access].into_iter().chain(named).map(|access| Arc::new(CommandAccess::new(access))).collect()
    }
    /// The rules of the top level's listeners, without what administers the server: for requests
    /// over HTTP without a login. MONITOR only shows data.
    pub fn without_admin(settings: &Settings) -> Arc<CommandAccess> {
        let mut access = CommandAccess::new(&settings.access);
        for command in COMMANDS.iter().filter(|command| command.flags.has(Flags::ADMIN) && command.name != "monitor") {
            access.passes[usize::from(command.index)] = false;
        }
        access.settings.forward_admin = false;
        Arc::new(CommandAccess { restricts: true, without_admin: true, ..access })
    }
    fn new(settings: &AccessSettings) -> CommandAccess {
        let passes = |command: &Command| {
            command.flags.has(Flags::NO_AUTH) || settings.refuses(command.name, Some(command.categories())).is_none()
        };
        CommandAccess {
            restricts: settings.restricts(),
            passes: COMMANDS.iter().map(passes).collect(),
            settings: settings.clone(),
            without_admin: false,
        }
    }
    /// Every command may be called.
    pub(super) fn to_all() -> Arc<CommandAccess> {
        let (settings, passes) = (AccessSettings::default(), vec![true; COMMANDS.len()].into());
        Arc::new(CommandAccess { restricts: settings.restricts(), settings, passes, without_admin: false })
    }
    /// Whether any command is refused.
    pub(super) fn restricts(&self) -> bool {
        self.restricts
    }
    /// Whether a command of Larder's table may be called.
    #[inline]
    pub(super) fn passes(&self, command: &Command) -> bool {
        self.passes[usize::from(command.index)]
    }
    /// The setting `forward-admin`.
    pub(super) fn forwards_admin(&self) -> bool {
        self.settings.forward_admin
    }
    /// Refuses a command of Larder's table that may not be called.
    pub(super) fn check(&self, command: &Command) -> Result<(), CommandError> {
        if self.passes(command) {
            return Ok(());
        }
        match self.settings.refuses(command.name, Some(command.categories())) {
            None if self.without_admin => Err(CommandError::from(format!(
                "NOPERM the '{}' command administers the server, which needs a login over HTTP (setting password or users-file)",
                command.name
            ))),
            setting => Err(refusal(command.name, setting)),
        }
    }
    /// Refuses a forwarded command that may not be called. `row` is its row in the source's table.
    pub(super) fn check_forwarded(&self, args: Args<'_>, row: Option<&UpstreamCommand>) -> Result<(), CommandError> {
        if !self.restricts {
            return Ok(());
        }
        let lower = |part: &[u8]| String::from_utf8_lossy(part).to_ascii_lowercase();
        let name: Cow<'_, str> = match (row, args.get(1)) {
            (Some(row), _) => Cow::Borrowed(&row.name),
            // The second part may be the name of a subcommand.
            (None, Some(sub)) => format!("{}|{}", lower(&args[0]), lower(sub)).into(),
            (None, None) => lower(&args[0]).into(),
        };
        match self.settings.refuses(&name, row.map(|row| row.categories)) {
            None => Ok(()),
            refused => Err(refusal(&name, refused)),
        }
    }
}

/// The error that Redis gives. Clients know it by its first word.
fn refusal(name: &str, setting: Option<&str>) -> CommandError {
    let setting = setting.unwrap_or("deny-commands");
    CommandError::from(format!(
        "NOPERM this listener has no permissions to run the '{name}' command (setting {setting})"
    ))
}

/// Redis's categories for each group of commands.
const GROUPS: [(&str, &[&str]); 9] = [
    ("string", &["string"]),
    ("bitmap", &["bitmap"]),
    ("hyperloglog", &["hyperloglog"]),
    ("generic", &["keyspace"]),
    ("transactions", &["transaction"]),
    ("connection", &["connection"]),
    ("pubsub", &["pubsub"]),
    ("scripting", &["scripting"]),
    ("cluster", &[]),
];
/// Categories in Redis's table that do not follow from group and flags.
const MORE: [(&str, &[&str]); 21] = [
    ("keys", &["dangerous"]),
    ("restore", &["dangerous"]),
    ("larder.tag", &["write"]),
    ("flushall", &["keyspace", "dangerous"]),
    ("flushdb", &["keyspace", "dangerous"]),
    ("info", &["dangerous"]),
    ("lastsave", &["admin", "dangerous"]),
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
    ("asking", &["connection"]),
    ("readonly", &["connection"]),
    ("readwrite", &["connection"]),
    ("function|flush", &["write"]),
];

impl Command {
    /// Redis's ACL categories of this command.
    pub(super) fn categories(&self) -> Categories {
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
    use crate::tests::Redis;
    use larder_config::CommandList;

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
