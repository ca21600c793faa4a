//! What a user may do, compiled: for most commands the check is one bit and a few patterns.
use super::{
    command_catalog::CommandCatalog,
    command_request::CommandRequest,
    command_rules::CommandRules,
    name_pattern::{KeyAccess, KeyPattern, NamePattern},
    rule_error::RuleError,
    selector::Selector,
};
use std::collections::HashMap;

#[derive(Debug, Clone, Copy)]
pub struct TouchedKey<'a> {
    pub key: &'a [u8],
    pub access: KeyAccess,
    /// The index of the argument, for messages and the log.
    pub position: usize,
}

/// A channel that a command publishes to or subscribes to.
#[derive(Debug, Clone, Copy)]
pub struct TouchedChannel<'a> {
    pub channel: &'a [u8],
    /// A subscription by pattern: the rules must have the same pattern.
    pub is_pattern: bool,
    /// The index of the argument.
    pub position: usize,
}

/// What a command may touch besides the keys that it names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Beyond {
    #[default]
    Nothing,
    /// Any key, in this way (`SORT … BY`, commands whose keys are not known).
    Keys(KeyAccess),
    /// Anything, with any command (scripts that the upstream runs as Larder's own user).
    Everything,
}

/// Why a command is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The command itself.
    Command,
    /// A key; its argument, if it is one.
    Key(Option<usize>),
    /// A channel; its argument.
    Channel(usize),
}

/// Everything that a user may do.
#[derive(Debug, Clone)]
pub struct Permissions {
    /// Everything is allowed.
    is_unrestricted: bool,
    /// The user's own rules, then the selectors, each complete in itself.
    selectors: Vec<CompiledSelector>,
}

#[derive(Debug, Clone)]
struct CompiledSelector {
    /// A bit for each row of the catalog: its command may run, whatever its first argument.
    allowed: Box<[u64]>,
    /// Rows that rules name with a first argument.
    by_argument: Box<[ByArgument]>,
    allows_everything: bool,
    commands: CommandRules,
    keys: Option<Box<[KeyPattern]>>,
    channels: Option<Box<[NamePattern]>>,
}

/// A command of which some calls are allowed and others not.
#[derive(Debug, Clone)]
struct ByArgument {
    place: usize,
    /// Whether it is allowed with other arguments than these.
    otherwise: bool,
    arguments: HashMap<Box<str>, bool>,
}

#[inline]
fn bit(bits: &[u64], at: usize) -> bool {
    bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
}

impl Permissions {
    /// Of a user's own rules and those in parentheses.
    pub(super) fn compile<'s>(
        selectors: impl IntoIterator<Item = &'s Selector>,
        catalog: &CommandCatalog,
    ) -> Permissions {
        let selectors: Vec<_> = selectors.into_iter().map(|one| CompiledSelector::new(one, catalog)).collect();
        let is_unrestricted =
            selectors.iter().any(|one| one.allows_everything && one.keys.is_none() && one.channels.is_none());
        Permissions { is_unrestricted, selectors }
    }

    /// Everything is allowed.
    pub fn unrestricted(catalog: &CommandCatalog) -> Permissions {
        let mut all = Selector { keys: None, channels: None, ..Selector::new() };
        all.commands.allow_all(true);
        Permissions::compile([&all], catalog)
    }

    /// Of the fields `commands`, `keys` and `channels` in a Redis's reply to `ACL GETUSER`: those
    /// of the user, then those of each selector. Fields that Redis 6 sends as lists are joined
    /// by spaces, `*` included; its channels are `*` where they are all.
    ///
    /// # Errors
    /// A field has something that is no rule.
    pub fn of_getuser<'a>(
        selectors: impl IntoIterator<Item = (&'a [u8], &'a [u8], &'a [u8])>,
        catalog: &CommandCatalog,
    ) -> Result<Permissions, RuleError> {
        Ok(Permissions::compile(&selectors_of_getuser(selectors, catalog)?, catalog))
    }

    /// Whether everything is allowed. Then there is nothing to check.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }
    /// Whether the command of this row may run with any keys, channels and arguments: one bit.
    #[inline]
    pub fn allow_row_at_all(&self, place: usize) -> bool {
        self.selectors.iter().any(|one| bit(&one.allowed, place) && one.keys.is_none() && one.channels.is_none())
    }

    /// Checks a command. If no selector allows it, the refusal is that of the selector that came
    /// furthest, as in Redis.
    ///
    /// # Errors
    /// What is refused.
    #[inline]
    pub fn check<'a>(
        &self,
        request: &CommandRequest<'_>,
        keys: impl Iterator<Item = TouchedKey<'a>> + Clone,
        channels: impl Iterator<Item = TouchedChannel<'a>> + Clone,
        beyond: Beyond,
    ) -> Result<(), Refusal> {
        if self.is_unrestricted {
            return Ok(());
        }
        let mut refusal = Refusal::Command;
        for selector in &self.selectors {
            match selector.check(request, keys.clone(), channels.clone(), beyond) {
                Ok(()) => return Ok(()),
                Err(further) => refusal = refusal.max(further),
            }
        }
        Err(refusal)
    }

    /// Whether a rule names this key, whatever the user may do with it: other keys are not the
    /// user's to know of.
    pub fn know_key(&self, key: &[u8]) -> bool {
        let knows = |patterns: &[KeyPattern]| patterns.iter().any(|one| one.allows(key, KeyAccess::NONE));
        self.is_unrestricted || self.selectors.iter().any(|one| one.keys.as_deref().is_none_or(knows))
    }
    /// Whether the user may subscribe to every channel.
    pub fn hear_everything(&self) -> bool {
        self.is_unrestricted || self.selectors.iter().any(|one| one.channels.is_none())
    }
    /// Whether the user may receive from this channel or pattern (open subscriptions of a user who
    /// was changed).
    pub fn allow_channel(&self, channel: TouchedChannel<'_>) -> bool {
        self.is_unrestricted || self.selectors.iter().any(|one| one.allows_channel(channel))
    }
}

/// The selectors that the fields of `ACL GETUSER` describe: see [`Permissions::of_getuser`].
pub(super) fn selectors_of_getuser<'a>(
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8], &'a [u8])>,
    catalog: &CommandCatalog,
) -> Result<Vec<Selector>, RuleError> {
    let mut all = Vec::new();
    for (commands, keys, channels) in fields {
        let mut selector = Selector::new();
        for word in words(commands) {
            selector.apply(word, catalog).or_else(|error| match error {
                // The upstream has commands that Larder does not know.
                RuleError::UnknownCommand => selector.commands.add_foreign(word),
                error => Err(error),
            })?;
        }
        for (fields, sign) in [(keys, b'~'), (channels, b'&')] {
            for word in words(fields) {
                match word.first() {
                    Some(b'~' | b'%' | b'&') => selector.apply(word, catalog)?,
                    _ => selector.apply(&[&[sign], word].concat(), catalog)?,
                }
            }
        }
        selector.commands.settle();
        all.push(selector);
    }
    Ok(all)
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

impl CompiledSelector {
    fn new(selector: &Selector, catalog: &CommandCatalog) -> CompiledSelector {
        let mut allowed = vec![0; catalog.rows().len().div_ceil(64)].into_boxed_slice();
        let mut by_argument = Vec::new();
        let rules = selector.commands.by_name();
        for (at, row) in catalog.rows().iter().enumerate() {
            let bit = 1 << (at % 64);
            if row.is_always_allowed {
                allowed[at / 64] |= bit;
                continue;
            }
            let (otherwise, arguments) = rules.of(row);
            if !arguments.is_empty() {
                by_argument.push(ByArgument { place: at, otherwise, arguments });
            } else if otherwise {
                allowed[at / 64] |= bit;
            }
        }
        CompiledSelector {
            allowed,
            by_argument: by_argument.into(),
            allows_everything: selector.commands.allow_everything(),
            commands: selector.commands.clone(),
            keys: selector.keys.is_some().then(|| selector.key_patterns().collect()),
            channels: selector.channels.as_ref().map(|channels| channels.iter().cloned().collect()),
        }
    }

    #[inline]
    fn check<'a>(
        &self,
        request: &CommandRequest<'_>,
        mut keys: impl Iterator<Item = TouchedKey<'a>>,
        mut channels: impl Iterator<Item = TouchedChannel<'a>>,
        beyond: Beyond,
    ) -> Result<(), Refusal> {
        if !self.allows_command(request) {
            return Err(Refusal::Command);
        }
        if let Some(patterns) = &self.keys {
            let is_refused = |key: &TouchedKey<'_>| !patterns.iter().any(|one| one.allows(key.key, key.access));
            if let Some(refused) = keys.find(is_refused) {
                return Err(Refusal::Key(Some(refused.position)));
            }
        }
        if let Some(patterns) = &self.channels {
            let is_refused = |channel: &TouchedChannel<'_>| !patterns.iter().any(|one| allows(one, *channel));
            if let Some(refused) = channels.find(is_refused) {
                return Err(Refusal::Channel(refused.position));
            }
        }
        match beyond {
            Beyond::Nothing => Ok(()),
            beyond => self.check_beyond(beyond),
        }
    }
    #[cold]
    fn check_beyond(&self, beyond: Beyond) -> Result<(), Refusal> {
        let allows_any_key = |access| {
            let is_any = |one: &KeyPattern| one.pattern.text() == b"*" && one.allows(b"", access);
            self.keys.as_ref().is_none_or(|keys| keys.iter().any(is_any))
        };
        match beyond {
            Beyond::Nothing => Ok(()),
            Beyond::Keys(access) if allows_any_key(access) => Ok(()),
            Beyond::Keys(_) => Err(Refusal::Key(None)),
            Beyond::Everything if !self.allows_everything => Err(Refusal::Command),
            Beyond::Everything if !allows_any_key(KeyAccess::BOTH) => Err(Refusal::Key(None)),
            Beyond::Everything if self.channels.is_some() => Err(Refusal::Command),
            Beyond::Everything => Ok(()),
        }
    }

    #[inline]
    fn allows_command(&self, request: &CommandRequest<'_>) -> bool {
        match request.place {
            Some(place) if bit(&self.allowed, place) => true,
            Some(place) => self.by_argument.iter().find(|of| of.place == place).is_some_and(|of| {
                let argument = request.first_argument.and_then(|first| std::str::from_utf8(first).ok());
                let allows = argument.and_then(|first| of.arguments.get(&*first.to_ascii_lowercase()));
                allows.copied().unwrap_or(of.otherwise)
            }),
            None => self.allows_everything || self.commands.allow(request),
        }
    }
    fn allows_channel(&self, channel: TouchedChannel<'_>) -> bool {
        self.channels.as_ref().is_none_or(|patterns| patterns.iter().any(|one| allows(one, channel)))
    }
}

/// A subscription by pattern needs the same pattern.
fn allows(pattern: &NamePattern, channel: TouchedChannel<'_>) -> bool {
    match channel.is_pattern {
        true => pattern.text() == channel.channel,
        false => pattern.matches(channel.channel),
    }
}
