//! One set of rules of a user: commands, keys and channels that go together.
use super::{
    command_catalog::CommandCatalog,
    command_rules::CommandRules,
    name_pattern::{KeyAccess, KeyPattern, NamePattern},
    rule_error::RuleError,
};
use indexmap::{IndexMap, IndexSet};

/// What a selector allows. A user has one, and any number in parentheses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) commands: CommandRules,
    /// `None`: all keys.
    pub(super) keys: Option<IndexMap<NamePattern, KeyAccess>>,
    /// `None`: all channels.
    pub(super) channels: Option<IndexSet<NamePattern>>,
}

impl Selector {
    /// One that allows nothing.
    pub(super) fn new() -> Selector {
        Selector {
            commands: CommandRules::default(),
            keys: Some(Default::default()),
            channels: Some(Default::default()),
        }
    }

    /// `(…)`: of the rules between the parentheses.
    pub(super) fn parse(text: &[u8], catalog: &CommandCatalog) -> Result<Selector, RuleError> {
        let inner = text.strip_prefix(b"(").and_then(|text| text.strip_suffix(b")")).ok_or(RuleError::Syntax)?;
        let mut selector = Selector::new();
        for rule in inner.split(|byte| *byte == b' ').filter(|rule| !rule.is_empty()) {
            // In a line of the users file it would end the selector, and what follows would be rules of the
            // user itself.
            if rule.ends_with(b")") {
                return Err(RuleError::Syntax);
            }
            selector.apply(rule, catalog)?;
        }
        selector.commands.settle();
        Ok(selector)
    }

    pub(super) fn apply(&mut self, rule: &[u8], catalog: &CommandCatalog) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        if is("allkeys") || is("~*") {
            self.keys = None;
        } else if is("resetkeys") {
            self.keys = Some(Default::default());
        } else if is("allchannels") || is("&*") {
            self.channels = None;
        } else if is("resetchannels") {
            self.channels = Some(Default::default());
        } else if is("allcommands") {
            self.commands.allow_all(true);
        } else if is("nocommands") {
            self.commands.allow_all(false);
        } else {
            match rule.first() {
                Some(b'~' | b'%') => self.add_keys(rule)?,
                Some(b'&') => self.add_channels(&rule[1..])?,
                Some(b'+' | b'-') => {
                    let text = std::str::from_utf8(rule).map_err(|_| RuleError::UnknownCommand)?;
                    self.commands.add(text, catalog)?;
                }
                _ => return Err(RuleError::Syntax),
            }
        }
        Ok(())
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let keys = self.keys.as_mut().ok_or(RuleError::KeysAreAll)?;
        let (access, pattern) = match rule.strip_prefix(b"~") {
            Some(pattern) => (KeyAccess::BOTH, pattern),
            None => {
                let end = rule.iter().position(|byte| *byte == b'~').ok_or(RuleError::Syntax)?;
                (access(&rule[1..end])?, &rule[end + 1..])
            }
        };
        let known = keys.entry(checked(pattern)?).or_default();
        *known = known.with(access);
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        let channels = self.channels.as_mut().ok_or(RuleError::ChannelsAreAll)?;
        channels.insert(checked(pattern)?);
        Ok(())
    }

    /// The key patterns; none where all keys are allowed.
    pub(super) fn key_patterns(&self) -> impl Iterator<Item = KeyPattern> {
        let of =
            |(pattern, access): (&NamePattern, &KeyAccess)| KeyPattern { pattern: pattern.clone(), access: *access };
        self.keys.iter().flatten().map(of)
    }
    /// The key patterns as GETUSER shows them.
    pub(super) fn key_text(&self) -> Vec<u8> {
        match &self.keys {
            None => b"~*".to_vec(),
            Some(_) => self.key_patterns().map(|one| one.text()).collect::<Vec<_>>().join(&b' '),
        }
    }
    /// The channel patterns as GETUSER shows them.
    pub(super) fn channel_text(&self) -> Vec<u8> {
        match &self.channels {
            None => b"&*".to_vec(),
            Some(channels) => {
                let each = channels.iter().map(|pattern| [b"&", pattern.text()].concat());
                each.collect::<Vec<_>>().join(&b' ')
            }
        }
    }
    /// All rules, as ACL LIST shows them.
    pub(super) fn text(&self) -> Vec<u8> {
        let channels = match &self.channels {
            None => b"&*".to_vec(),
            Some(_) => [&b"resetchannels "[..], &self.channel_text()].concat().trim_ascii_end().to_vec(),
        };
        let parts = [self.key_text(), channels, self.commands.text().into_bytes()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b' ')
    }
}

/// The letters between `%` and `~`.
fn access(letters: &[u8]) -> Result<KeyAccess, RuleError> {
    let access = letters.iter().try_fold(KeyAccess::NONE, |access, letter| {
        let more = match letter.to_ascii_uppercase() {
            b'R' => KeyAccess::READ,
            b'W' => KeyAccess::WRITE,
            _ => return Err(RuleError::Syntax),
        };
        // No letter twice.
        if access.with(more) == access { Err(RuleError::Syntax) } else { Ok(access.with(more)) }
    })?;
    if access == KeyAccess::NONE { Err(RuleError::Syntax) } else { Ok(access) }
}

/// A pattern, which has no spaces: they separate rules.
fn checked(pattern: &[u8]) -> Result<NamePattern, RuleError> {
    match pattern.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 11)) {
        true => Err(RuleError::Syntax),
        false => Ok(NamePattern::new(pattern)),
    }
}
