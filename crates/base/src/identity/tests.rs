//! Rules against a model that keeps a flag for each command, as Redis does, and texts that say the
//! same again.
use super::*;
use larder_config::Categories;
use larder_proto::glob;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const ROWS: [(&str, &[&str]); 9] = [
    ("get", &["read", "string", "fast"]),
    ("set", &["write", "string", "slow"]),
    ("keys", &["read", "keyspace", "dangerous", "slow"]),
    ("config", &["slow"]),
    ("config|get", &["admin", "dangerous", "slow"]),
    ("config|set", &["admin", "dangerous", "slow"]),
    ("select", &["connection", "fast"]),
    ("auth", &["connection", "fast"]),
    ("publish", &["pubsub", "fast"]),
];

fn catalog() -> CommandCatalog {
    CommandCatalog::new(ROWS.map(|(name, categories)| CatalogRow {
        name,
        categories: categories.iter().filter_map(|name| Categories::named(name)).collect(),
        is_always_allowed: name == "auth",
    }))
}

/// One selector as Redis keeps it: a flag for each command and its allowed first arguments,
/// patterns as they were said.
#[derive(Default)]
struct Model {
    allowed: BTreeSet<&'static str>,
    arguments: BTreeMap<&'static str, BTreeSet<String>>,
    keys: Vec<(bool, bool, String)>,
    channels: Vec<String>,
    all_keys: bool,
    all_channels: bool,
}
impl Model {
    fn set(&mut self, is: impl Fn(&str, &[&str]) -> bool, allow: bool) {
        for (name, _) in ROWS.into_iter().filter(|(name, categories)| is(name, categories)) {
            self.arguments.remove(name);
            if allow {
                self.allowed.insert(name)
            } else {
                self.allowed.remove(name)
            };
        }
    }
    fn apply(&mut self, rule: &str) {
        match rule {
            "allkeys" | "~*" => (self.all_keys, self.keys) = (true, Vec::new()),
            "resetkeys" => (self.all_keys, self.keys) = (false, Vec::new()),
            "allchannels" => (self.all_channels, self.channels) = (true, Vec::new()),
            "resetchannels" => (self.all_channels, self.channels) = (false, Vec::new()),
            "allcommands" | "+@all" => self.set(|_, _| true, true),
            "nocommands" | "-@all" => self.set(|_, _| true, false),
            "+select|0" => {
                self.arguments.entry("select").or_default().insert("0".to_owned());
            }
            _ => match (&rule[..1], &rule[1..]) {
                (sign @ ("+" | "-"), name) => match name.strip_prefix('@') {
                    Some(category) => self.set(|_, of| of.contains(&category), sign == "+"),
                    None => self.set(|of, _| of == name || of.starts_with(&format!("{name}|")), sign == "+"),
                },
                ("~", pattern) => self.keys.push((true, true, pattern.to_owned())),
                ("&", pattern) => self.channels.push(pattern.to_owned()),
                (_, rest) => {
                    let (letters, pattern) = rest.split_once('~').expect("a key pattern");
                    self.keys.push((letters.contains('R'), letters.contains('W'), pattern.to_owned()));
                }
            },
        }
    }
    /// Patterns with one text count together, as in Redis.
    fn allows_key(&self, key: &str, read: bool, write: bool) -> bool {
        let texts: BTreeSet<&String> = self.keys.iter().map(|(_, _, text)| text).collect();
        self.all_keys
            || texts.into_iter().any(|text| {
                let of = || self.keys.iter().filter(|(_, _, other)| other == text);
                let (reads, writes) = (of().any(|(reads, _, _)| *reads), of().any(|(_, writes, _)| *writes));
                (reads || !read) && (writes || !write) && glob::matches(text.as_bytes(), key.as_bytes(), false)
            })
    }
    fn allows_command(&self, name: &str, argument: Option<&str>) -> bool {
        let by_argument = |of: &BTreeSet<String>| argument.is_some_and(|argument| of.contains(argument));
        name == "auth" || self.allowed.contains(name) || self.arguments.get(name).is_some_and(by_argument)
    }
}

fn rules() -> impl Strategy<Value = Vec<&'static str>> {
    let one = prop::sample::select(vec![
        "+get",
        "-get",
        "+set",
        "-set",
        "+config",
        "-config",
        "+config|get",
        "-config|get",
        "+config|set",
        "+select",
        "-select",
        "+select|0",
        "+@read",
        "-@read",
        "+@string",
        "-@dangerous",
        "+@admin",
        "-@admin",
        "+@slow",
        "-@slow",
        "+@all",
        "-@all",
        "allcommands",
        "nocommands",
        "~a",
        "~a*",
        "%R~a*",
        "%W~a*",
        "%W~b",
        "~[bc]?",
        "%RW~c*",
        "allkeys",
        "resetkeys",
        "&a*",
        "&b",
        "allchannels",
        "resetchannels",
        "+keys",
        "+publish",
    ]);
    prop::collection::vec(one, 0..8)
}

fn applied(rules: &[&'static str]) -> (User, Vec<Model>) {
    let catalog = catalog();
    let mut model = Model::default();
    let mut user = User::new("u", &catalog);
    for rule in rules {
        // A rule that is refused (a pattern after `allkeys`) changes nothing.
        if let Ok(changed) = user.changed(&[rule], &catalog) {
            user = changed;
            model.apply(rule);
        }
    }
    (user, vec![model])
}

fn access(read: bool, write: bool) -> KeyAccess {
    let of = |yes, access| if yes { access } else { KeyAccess::NONE };
    of(read, KeyAccess::READ).with(of(write, KeyAccess::WRITE))
}

/// Compares every command with every key and channel.
fn agree(permissions: &Permissions, models: &[Model]) {
    for (place, (name, categories)) in ROWS.into_iter().enumerate() {
        let categories: Categories = categories.iter().filter_map(|name| Categories::named(name)).collect();
        for argument in [None, Some("0"), Some("1")] {
            for (key, read, write) in [
                ("a", true, false),
                ("ab", false, true),
                ("b", true, true),
                ("bx", false, false),
                ("c1", true, true),
                ("x", false, false),
            ] {
                for channel in ["a1", "b", "z"] {
                    let keys = [TouchedKey { key: key.as_bytes(), access: access(read, write), position: 1 }];
                    let channels = [TouchedChannel { channel: channel.as_bytes(), is_pattern: false, position: 1 }];
                    let expected = models.iter().any(|model| {
                        model.allows_command(name, argument)
                            && model.allows_key(key, read, write)
                            && (model.all_channels
                                || model
                                    .channels
                                    .iter()
                                    .any(|one| glob::matches(one.as_bytes(), channel.as_bytes(), false)))
                    });
                    // By its place in the catalog, and by name as a command that is only forwarded.
                    for place in [Some(place), None] {
                        if place.is_none() && name == "auth" {
                            continue;
                        }
                        let request = CommandRequest {
                            place,
                            name,
                            categories: Some(categories),
                            first_argument: argument.map(str::as_bytes),
                        };
                        let checked =
                            permissions.check(&request, keys.into_iter(), channels.into_iter(), Beyond::Nothing);
                        assert_eq!(checked.is_ok(), expected, "{name} {argument:?} {key} {channel}: {checked:?}");
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn rules_are_as_in_the_model(root in rules(), selector in rules()) {
        let (user, mut models) = applied(&root);
        let (_, in_selector) = applied(&selector);
        agree(user.permissions(), &models);
        let text = format!("({})", selector.join(" "));
        if let Ok(user) = user.changed(&[text], &catalog()) {
            models.extend(in_selector);
            agree(user.permissions(), &models);
            // The line of the file and the fields of GETUSER say the same.
            let line = user.line();
            let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').skip(2).collect();
            let again = User::new("u", &catalog()).changed(&words, &catalog()).expect("its own line");
            assert_eq!(again.line(), line);
            agree(again.permissions(), &models);
            let fields: Vec<[Vec<u8>; 3]> = user.descriptions().collect();
            let fields = fields.iter().map(|[commands, keys, channels]| (&commands[..], &keys[..], &channels[..]));
            agree(&Permissions::of_getuser(fields, &catalog()).expect("its own fields"), &models);
        }
    }

    #[test]
    fn arbitrary_rules_are_applied_or_refused(rules in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..5)) {
        let catalog = catalog();
        if let Ok(user) = User::new("u", &catalog).changed(&rules, &catalog) {
            assert!(user.line().starts_with(b"user u o"));
        }
    }
}

#[test]
fn refused_rules_say_why_in_redis_words() {
    let catalog = catalog();
    let zeros = "0".repeat(64);
    for (rules, error) in [
        (&["xx"][..], RuleError::Syntax),
        (&["+foo"], RuleError::UnknownCommand),
        (&["+@foo"], RuleError::UnknownCommand),
        (&["+config|foo"], RuleError::UnknownCommand),
        (&["-config|foo"], RuleError::UnknownCommand),
        (&["-get|x"], RuleError::UnknownCommand),
        (&["+get|"], RuleError::Syntax),
        (&["+config|get|x"], RuleError::ArgumentOfSubcommand),
        (&["~a b"], RuleError::Syntax),
        (&["%X~a"], RuleError::Syntax),
        (&["%RR~a"], RuleError::Syntax),
        (&["%~a"], RuleError::Syntax),
        (&["~*", "~a"], RuleError::KeysAreAll),
        (&["&*", "&a"], RuleError::ChannelsAreAll),
        (&["#zz"], RuleError::MalformedHash),
        (&["<nope"], RuleError::NoSuchPassword),
        (&[&*format!("!{zeros}")], RuleError::NoSuchPassword),
        (&["#$argon2id$v=19$m=99999999,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"], RuleError::UnusableArgon2),
        (&["#$argon2id$nonsense"], RuleError::UnusableArgon2),
    ] {
        let changed = User::new("u", &catalog).changed(rules, &catalog);
        let last = rules.last().expect("a rule").as_bytes().to_vec();
        assert_eq!(changed.err(), Some(RejectedRule::Rule { rule: last, error }), "{rules:?}");
    }
    // ACL SAVE would write `(~a) +get)`, of which the users file would read `+get)` as a rule of the
    // user.
    assert!(User::new("u", &catalog).changed(&["(+get ~a))"], &catalog).is_err());
    let open = User::new("u", &catalog).changed(&["(+get", "~x"], &catalog);
    assert_eq!(open.err(), Some(RejectedRule::Unmatched(b"(+get ~x".to_vec())));
}

#[test]
fn commands_that_are_not_in_the_table_are_judged_by_name() {
    let catalog = catalog();
    let allows = |rules: &[&str], name: &str, argument: Option<&str>, categories: Option<&[&str]>| {
        let user = User::new("u", &catalog).changed(rules, &catalog).expect("rules");
        let categories = categories.map(|names| names.iter().filter_map(|name| Categories::named(name)).collect());
        let first_argument = argument.map(str::as_bytes);
        let request = CommandRequest { place: None, name, categories, first_argument };
        let nothing = std::iter::empty;
        user.permissions().check(&request, nothing(), std::iter::empty(), Beyond::Nothing).is_ok()
    };
    assert!(allows(&["+hget"], "hget", None, None));
    assert!(!allows(&["+hget"], "hset", None, None));
    assert!(allows(&["+@hash"], "hset", None, Some(&["hash"])));
    // Of what is not known the worst is believed.
    assert!(!allows(&["+@hash"], "hset", None, None));
    assert!(!allows(&["+@all", "-@dangerous"], "new", None, None));
    assert!(allows(&["+@all", "-@dangerous"], "new", None, Some(&[])));
    assert!(allows(&["+xgroup|create"], "xgroup|create", None, None));
    assert!(!allows(&["+xgroup|create"], "xgroup|destroy", None, None));
    assert!(!allows(&["+@all", "-cluster|reset"], "cluster", Some("reset"), Some(&[])));
    assert!(allows(&["+@all", "-cluster|reset"], "cluster|nodes", None, Some(&[])));
    assert!(allows(&["+json.get"], "json.get", None, None));
}

#[test]
fn what_goes_beyond_the_keys_needs_more() {
    let catalog = catalog();
    let checked = |rules: &[&str], beyond| {
        let user = User::new("u", &catalog).changed(rules, &catalog).expect("rules");
        let request = CommandRequest { place: None, name: "eval", categories: None, first_argument: None };
        user.permissions().check(&request, std::iter::empty(), std::iter::empty(), beyond)
    };
    let reads = Beyond::Keys(KeyAccess::READ);
    assert_eq!(checked(&["+eval", "~a*"], reads), Err(Refusal::Key(None)));
    assert_eq!(checked(&["+eval", "%W~*"], reads), Err(Refusal::Key(None)));
    assert_eq!(checked(&["+eval", "%R~*"], reads), Ok(()));
    assert_eq!(checked(&["+eval", "~*", "&*"], Beyond::Everything), Err(Refusal::Command));
    assert_eq!(checked(&["+@all", "-keys", "~*", "&*"], Beyond::Everything), Err(Refusal::Command));
    assert_eq!(checked(&["+@all", "~a*", "&*"], Beyond::Everything), Err(Refusal::Key(None)));
    assert_eq!(checked(&["+@all", "%R~*", "&*"], Beyond::Everything), Err(Refusal::Key(None)));
    assert_eq!(checked(&["+@all", "~*"], Beyond::Everything), Err(Refusal::Command));
    assert_eq!(checked(&["+@all", "~*", "&*"], Beyond::Everything), Ok(()));
}

#[test]
fn passwords_are_those_of_the_rules() {
    let catalog = catalog();
    let of = |rules: &[&str]| User::new("u", &catalog).changed(rules, &catalog).expect("rules");
    let user = of(&[">one", ">two", "<one", "#6c5ce4afca2d2d6aa2a9a5ff6bf1e6c1b4b3a5bb0d5a5f8a8e3c0d1f2a3b4c5d"]);
    assert!(user.passwords().contain(b"two") && !user.passwords().contain(b"one") && !user.passwords().contain(b""));
    assert_eq!(user.hashes().len(), 2);
    assert!(!of(&["nopass", ">one"]).has_no_password());
    assert!(of(&[">one", "nopass"]).has_no_password());
    assert!(!of(&[">one", "resetpass"]).passwords().contain(b"one"));
    assert!(of(&[">one", "on", "reset"]).line() == b"user u off sanitize-payload resetchannels -@all");
}
