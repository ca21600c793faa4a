//! One user: name, passwords and rules, as a line of a Redis's `aclfile`.
use super::{
    command_catalog::CommandCatalog,
    passwords::{Passwords, StoredPassword},
    permissions::{Permissions, selectors_of_getuser},
    rule_error::RuleError,
    selector::Selector,
};

/// The name of the user that clients are before they log in, if it has no password.
pub const DEFAULT_USER: &str = "default";

/// A user. A change makes a new value, so that a check never sees half a change.
#[derive(Debug, Clone)]
pub struct User {
    pub name: Box<str>,
    /// Tells this user from a later one of the same name.
    pub(super) born: u64,
    is_on: bool,
    has_no_password: bool,
    /// What was said about RESTORE payloads, to be shown again. Larder never sanitizes: it has no
    /// payloads.
    sanitizes: Option<bool>,
    passwords: Passwords,
    root: Selector,
    selectors: Vec<Selector>,
    permissions: Permissions,
}

impl User {
    /// One that is off and may do nothing.
    pub fn new(name: &str, catalog: &CommandCatalog) -> User {
        let root = Selector::new();
        User {
            name: name.into(),
            born: 0,
            is_on: false,
            has_no_password: false,
            sanitizes: None,
            passwords: Passwords::default(),
            permissions: Permissions::compile([&root], catalog),
            root,
            selectors: Vec::new(),
        }
    }
    /// One that is on, has no password and may do everything.
    pub fn unrestricted(name: &str, catalog: &CommandCatalog) -> User {
        let rules: [&[u8]; 5] = [b"on", b"nopass", b"~*", b"&*", b"+@all"];
        User::new(name, catalog).changed(&rules, catalog).unwrap_or_else(|_| User::new(name, catalog))
    }

    /// The user that a Redis describes in its reply to `ACL GETUSER`: its flags, the SHA-256 of its
    /// passwords in hex, and the fields that [`Permissions::of_getuser`] takes.
    ///
    /// # Errors
    /// A field has something that is no rule.
    pub fn of_getuser<'a>(
        name: &str,
        flags: impl IntoIterator<Item = &'a [u8]>,
        hashes: impl IntoIterator<Item = &'a [u8]>,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8], &'a [u8])>,
        catalog: &CommandCatalog,
    ) -> Result<User, RuleError> {
        let mut user = User::new(name, catalog);
        for flag in flags {
            match flag {
                b"on" => user.is_on = true,
                b"nopass" => user.has_no_password = true,
                // The others repeat what the fields say.
                _ => {}
            }
        }
        let hashes: Result<_, _> = hashes.into_iter().map(StoredPassword::parse).collect();
        user.passwords = Passwords(hashes?);
        let mut selectors = selectors_of_getuser(fields, catalog)?.into_iter();
        user.root = selectors.next().unwrap_or_else(Selector::new);
        user.selectors = selectors.collect();
        user.permissions = Permissions::compile([&user.root].into_iter().chain(&user.selectors), catalog);
        Ok(user)
    }

    /// About what the user occupies: its name twice, and its rules as text, parsed and compiled.
    pub(super) fn owned(&self) -> usize {
        1024 + 2 * self.name.len() + 4 * self.line().len()
    }

    /// This user after these rules, which are applied in order.
    ///
    /// # Errors
    /// The rule that cannot be applied, and why.
    pub fn changed<R: AsRef<[u8]>>(&self, rules: &[R], catalog: &CommandCatalog) -> Result<User, RejectedRule> {
        let mut user = self.clone();
        for rule in merged(rules)? {
            user.apply(&rule, catalog).map_err(|error| RejectedRule::Rule { rule, error })?;
        }
        user.root.commands.settle();
        user.permissions = Permissions::compile([&user.root].into_iter().chain(&user.selectors), catalog);
        Ok(user)
    }

    fn apply(&mut self, rule: &[u8], catalog: &CommandCatalog) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => (self.has_no_password, self.passwords) = (true, Passwords::default()),
            b"resetpass" => (self.has_no_password, self.passwords) = (false, Passwords::default()),
            b"sanitize-payload" => self.sanitizes = Some(true),
            b"skip-sanitize-payload" => self.sanitizes = Some(false),
            b"clearselectors" => self.selectors.clear(),
            b"reset" => {
                (self.is_on, self.has_no_password, self.sanitizes) = (false, false, Some(true));
                (self.passwords, self.root, self.selectors) = (Passwords::default(), Selector::new(), Vec::new());
            }
            _ => match rule.split_first() {
                Some((b'>', password)) => self.add(StoredPassword::of(password)),
                Some((b'#', hash)) => self.add(StoredPassword::parse(hash)?),
                Some((b'<', password)) => self.remove(&StoredPassword::of(password))?,
                Some((b'!', hash)) => self.remove(&StoredPassword::parse(hash)?)?,
                Some((b'(', _)) => self.selectors.push(Selector::parse(rule, catalog)?),
                _ => self.root.apply(rule, catalog)?,
            },
        }
        Ok(())
    }
    fn add(&mut self, password: StoredPassword) {
        self.has_no_password = false;
        self.passwords.0.insert(password);
    }
    fn remove(&mut self, password: &StoredPassword) -> Result<(), RuleError> {
        match self.passwords.0.swap_remove(password) {
            true => Ok(()),
            false => Err(RuleError::NoSuchPassword),
        }
    }

    /// Whether the user may log in.
    pub fn is_on(&self) -> bool {
        self.is_on
    }
    /// Whether any password is right.
    pub fn has_no_password(&self) -> bool {
        self.has_no_password
    }
    pub fn passwords(&self) -> &Passwords {
        &self.passwords
    }
    /// What the user may do.
    #[inline]
    pub fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// Whether `other` may hear other channels than this user.
    pub(super) fn hears_other_channels(&self, other: &User) -> bool {
        let channels = |user: &User| -> Vec<Vec<u8>> { user.descriptions().map(|[_, _, channels]| channels).collect() };
        channels(self) != channels(other)
    }

    /// The words that GETUSER shows as flags.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let is_on = if self.is_on { "on" } else { "off" };
        let sanitizes = self.sanitizes.map(|yes| if yes { "sanitize-payload" } else { "skip-sanitize-payload" });
        [Some(is_on), self.has_no_password.then_some("nopass"), sanitizes].into_iter().flatten()
    }
    /// The hashes that GETUSER shows.
    pub fn hashes(&self) -> impl ExactSizeIterator<Item = String> {
        self.passwords.0.iter().map(StoredPassword::text)
    }
    /// Commands, keys and channels of the user's own rules, then of each selector, as GETUSER shows
    /// them.
    pub fn descriptions(&self) -> impl ExactSizeIterator<Item = [Vec<u8>; 3]> {
        let all: Vec<_> = [&self.root].into_iter().chain(&self.selectors).collect();
        all.into_iter().map(|one| [one.commands.text().into_bytes(), one.key_text(), one.channel_text()])
    }
    /// The line of the users file, without its end: `user NAME on #… ~* &* +@all`.
    pub fn line(&self) -> Vec<u8> {
        let mut line = format!("user {}", self.name).into_bytes();
        let mut add = |word: &[u8]| {
            line.push(b' ');
            line.extend_from_slice(word);
        };
        self.flags().for_each(|flag| add(flag.as_bytes()));
        self.hashes().for_each(|hash| add(format!("#{hash}").as_bytes()));
        add(&self.root.text());
        self.selectors.iter().for_each(|selector| add(&[b"(", &selector.text()[..], b")"].concat()));
        line
    }
}

/// Why a user could not be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RejectedRule {
    Rule {
        rule: Vec<u8>,
        error: RuleError,
    },
    /// A selector that does not end.
    Unmatched(Vec<u8>),
    /// What clients add to the users may occupy so many bytes.
    NoRoom {
        most: usize,
    },
}

/// The rules, with selectors that are spread over several arguments put together.
fn merged<R: AsRef<[u8]>>(rules: &[R]) -> Result<Vec<Vec<u8>>, RejectedRule> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<Vec<u8>> = None;
    for rule in rules.iter().map(AsRef::as_ref) {
        let part = match open.take() {
            Some(mut begun) => {
                begun.push(b' ');
                begun.extend_from_slice(rule);
                begun
            }
            None => rule.to_vec(),
        };
        match part.starts_with(b"(") && !part.ends_with(b")") {
            true => open = Some(part),
            false => all.push(part),
        }
    }
    match open {
        Some(begun) => Err(RejectedRule::Unmatched(begun)),
        None => Ok(all),
    }
}
