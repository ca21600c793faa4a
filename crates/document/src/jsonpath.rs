//! What a JSONPath consists of.
use regex_automata::{
    hybrid::{LazyStateID, dfa},
    nfa::thompson::{NFA, WhichCaptures, pikevm},
    util::syntax,
};
use std::cell::RefCell;

/// Sizes that a compiled regular expression may have, bytes: most fit the first one.
pub(crate) const PATTERN_SIZES: [usize; 2] = [64 << 10, 1 << 20];

/// The text of a regular expression may have one byte for this many of its compiled form.
pub(crate) const SIZE_OF_TEXT: usize = 16;
/// A class of thousands of characters counts as this many bytes of a text.
const CLASS: usize = 512;
/// The same where case does not matter: each of its characters is looked up.
const CASELESS_CLASS: usize = 4096;

/// A step from a container to what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To the member of an object with this key.
    Key(String),
    /// To the element of an array with this number; negative: from the end.
    Index(i64),
}

/// How a path finds values.
#[derive(Debug, Clone)]
pub(crate) enum PathKind {
    /// One place at most.
    Steps(Vec<Step>),
    /// As many as there are.
    Segments(Vec<Segment>),
}

/// From some values to others.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    /// From everything in them as well (`..`).
    pub(crate) is_descendant: bool,
    pub(crate) selectors: Vec<Selector>,
}

/// From a value to values in it.
#[derive(Debug, Clone)]
pub(crate) enum Selector {
    One(Step),
    All,
    Slice { start: Option<i64>, stop: Option<i64>, step: i64 },
    Filter(Filter),
}

/// A condition.
#[derive(Debug, Clone)]
pub(crate) enum Filter {
    Or(Vec<Filter>),
    And(Vec<Filter>),
    Not(Box<Filter>),
    /// The query finds something.
    Exists(FilterQuery),
    Compare(Operand, Operator, Operand),
    /// The text matches a regular expression, as a whole or in a part.
    Matches {
        text: Operand,
        pattern: PatternSource,
        is_whole: bool,
    },
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What is compared: a value, or nothing.
#[derive(Debug, Clone)]
pub(crate) enum Operand {
    /// Compact JSON text.
    Literal(Vec<u8>),
    /// A query to one place.
    Query(FilterQuery),
    Length(Box<Operand>),
    Count(FilterQuery),
    /// The value that the query finds if it is the only one.
    Value(FilterQuery),
}

/// A path within a filter.
#[derive(Debug, Clone)]
pub(crate) struct FilterQuery {
    pub(crate) origin: Origin,
    pub(crate) kind: PathKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The value that is filtered (`@`).
    Current,
    /// The document (`$`), with the number of the query: it finds the same for each value.
    Root(usize),
}

/// Where a regular expression comes from.
#[derive(Debug, Clone)]
pub(crate) enum PatternSource {
    /// A literal; `None`: it is no regular expression, so nothing matches it.
    Fixed(Option<Box<Pattern>>),
    Operand(Operand),
}

/// Bytes that the states of a regular expression may occupy while it runs.
const STATES: usize = 1 << 20;
/// A step of an automaton that is known takes as long as reading so many bytes.
const STEP_WORK: usize = 8;
/// A look at one state of a pattern takes as long as reading so many bytes. A new transition looks at each
/// state once, and the end of a text behind it once more.
const STATE_WORK: usize = 2 * 8;

/// A regular expression has more states than it may have.
#[derive(Debug)]
pub struct PatternTooLarge;

/// How long the text of a regular expression counts: by its bytes, and more for large classes, which
/// take memory and time before the compiled form has any size.
pub(crate) fn counted_len(text: &str) -> usize {
    // With `x`, a blank may stand before a later `?i`.
    let has_flag = |group: &str| {
        let mut flags = group.bytes().take_while(|byte| byte.is_ascii_alphabetic() || *byte == b'-');
        flags.any(|flag| matches!(flag, b'i' | b'x'))
    };
    let is_caseless = text.split("(?").skip(1).any(has_flag);
    let is_class = |pair: &&[u8]| match pair {
        [b'\\', b'w' | b'W' | b'p' | b'P'] => true,
        [b'\\', b'D' | b'S'] => is_caseless,
        [b'-', last] => is_caseless && !last.is_ascii_alphanumeric(),
        [before, b'^'] => is_caseless && !b"(|)".contains(before),
        _ => false,
    };
    let classes = text.as_bytes().windows(2).filter(is_class).count();
    text.len().saturating_add(classes.saturating_mul(if is_caseless { CASELESS_CLASS } else { CLASS }))
}

/// A compiled regular expression.
///
/// A pattern of n states may take n steps for each byte of a text. So it runs as an automaton that is
/// made while the text is read. Each new transition is charged with all states of the pattern, each known
/// one with a step: patterns that need few transitions are cheap, and the others end with an error.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// `None`: the pattern has word boundaries of Unicode, which need the other machine.
    automaton: Option<(dfa::DFA, RefCell<dfa::Cache>)>,
    machine: pikevm::PikeVM,
    /// Of the pattern as compiled.
    states: usize,
}

impl Pattern {
    /// Compiles one of up to this many bytes; `None`: it is no regular expression.
    ///
    /// # Errors
    /// It is too large.
    pub fn new(text: &str, is_whole: bool, size: usize) -> Result<Option<Box<Pattern>>, PatternTooLarge> {
        // The compiler reads the whole text before it looks at the size.
        if text.len() > size / SIZE_OF_TEXT || counted_len(text) > size / SIZE_OF_TEXT {
            return Err(PatternTooLarge);
        }
        let config = NFA::config().nfa_size_limit(Some(size)).which_captures(WhichCaptures::None);
        // In an I-Regexp (RFC 9485) a dot is neither \r nor \n.
        let syntax = syntax::Config::new().crlf(true);
        let compiled = |text: &str| {
            let built = NFA::compiler().configure(config.clone()).syntax(syntax).build(text);
            built.map_err(|error| error.size_limit().map(|_| PatternTooLarge))
        };
        // Alone first: what is wrong alone may be right within the group, like `a)|(b`.
        let states = match compiled(text) {
            Ok(_) if is_whole => compiled(&format!(r"\A(?:{text})\z")),
            alone => alone,
        };
        match states {
            Ok(states) => Ok(Pattern::of(states).map(Box::new)),
            Err(Some(too_large)) => Err(too_large),
            Err(None) => Ok(None),
        }
    }

    fn of(nfa: NFA) -> Option<Pattern> {
        let states = nfa.states().len();
        let config = dfa::Config::new().cache_capacity(STATES).skip_cache_capacity_check(true);
        let automaton = dfa::Builder::new().configure(config).build_from_nfa(nfa.clone()).ok();
        let automaton = automaton.map(|dfa| {
            let cache = RefCell::new(dfa.create_cache());
            (dfa, cache)
        });
        Some(Pattern { automaton, machine: pikevm::Builder::new().build_from_nfa(nfa).ok()?, states })
    }

    /// Whether a text matches. `charge` counts the work, in bytes that could be read instead; where
    /// it returns false, it is unknown (`None`).
    pub fn is_match(&self, text: &str, mut charge: impl FnMut(usize) -> bool) -> Option<bool> {
        if !charge(text.len().saturating_mul(STEP_WORK)) {
            return None;
        }
        let all_states = self.states.saturating_mul(STATE_WORK);
        match &self.automaton {
            Some((dfa, cache)) => run(dfa, &mut cache.borrow_mut(), text, || charge(all_states)),
            None => charge(text.len().saturating_mul(all_states))
                .then(|| self.machine.is_match(&mut self.machine.create_cache(), text)),
        }
    }
}

/// Runs an automaton to the end of a text, unless `charge`, which is called before a transition is
/// made, stops it. It always has the next step, and room for its states: it was built without
/// limits.
fn run(dfa: &dfa::DFA, cache: &mut dfa::Cache, text: &str, mut charge: impl FnMut() -> bool) -> Option<bool> {
    let mut at: LazyStateID = dfa.start_state_forward(cache, &text.into()).ok()?;
    for &byte in text.as_bytes() {
        let known = if at.is_tagged() { None } else { Some(dfa.next_state_untagged(cache, at, byte)) };
        at = match known.filter(|next| !next.is_unknown()) {
            Some(next) => next,
            None => charge().then(|| dfa.next_state(cache, at, byte).ok())??,
        };
        if at.is_tagged() {
            match () {
                () if at.is_match() => return Some(true),
                () if at.is_dead() => return Some(false),
                () if at.is_quit() => return None,
                () => {}
            }
        }
    }
    Some(dfa.next_eoi_state(cache, at).ok()?.is_match())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These have nothing to compile, so only their texts tell what reading them takes.
    #[test]
    fn long_texts_and_many_large_classes_are_not_compiled() {
        let is_read = |text: String, size: usize| Pattern::new(&text, false, size).is_ok();
        let [small, large] = PATTERN_SIZES;
        for size in [small, large] {
            let blanks = |len: usize| format!("(?x){}", " ".repeat(len - 4));
            assert!(is_read(blanks(size / SIZE_OF_TEXT), size) && !is_read(blanks(size / SIZE_OF_TEXT + 1), size));
        }
        for (class, most) in [(r"\w{0}", 126), (r"\PL{0}", 126), (r"\d{0}", 10_000), (r"[^a]{0}", 9_000)] {
            assert!(is_read(class.repeat(most), large), "{class}");
        }
        for class in [r"\pL{0}", r"[!-\x{10ffff}]{0}", "[!-\u{10ffff}]{0}", "[[^k]a]{0}"] {
            for flags in ["(?i)", "(?-si:)(?si)", "(?x)( ?i)"] {
                assert!(is_read(flags.to_owned() + &class.repeat(15), large), "{flags}{class}");
                assert!(!is_read(flags.to_owned() + &class.repeat(16), large), "{flags}{class}");
            }
        }
        assert!(!is_read(r"\w{0}".repeat(128), large));
        let id = r"(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$|^urn:\w+$|^[^@\s]+@[a-z.-]+$";
        assert!(is_read(id.to_owned(), large));
    }
}
