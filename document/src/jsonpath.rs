//! What a JSONPath consists of.
use regex::{Regex, RegexBuilder};

/// Sizes that a compiled regular expression may have, bytes: most fit the first one.
pub(crate) const PATTERN_SIZES: [usize; 2] = [64 << 10, 1 << 20];

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
    Fixed(Option<Pattern>),
    Operand(Operand),
}

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) regex: Regex,
    /// How many times longer a search takes than reading, at most about.
    pub(crate) cost: usize,
}

impl Pattern {
    /// Compiles one of up to this many bytes; `None`: it is no regular expression.
    ///
    /// # Errors
    /// It is too large.
    pub(crate) fn new(text: &str, is_whole: bool, size: usize) -> Result<Option<Pattern>, regex::Error> {
        // In an I-Regexp (RFC 9485) a dot is neither \r nor \n.
        let compiled = |text: &str| RegexBuilder::new(text).crlf(true).size_limit(size).dfa_size_limit(size).build();
        // Alone first: what is wrong alone may be right within the group, like `a)|(b`.
        let regex = match compiled(text) {
            Ok(_) if is_whole => compiled(&format!(r"\A(?:{text})\z")),
            alone => alone,
        };
        match regex {
            Err(error @ regex::Error::CompiledTooBig(_)) => Err(error),
            regex => Ok(regex.ok().map(|regex| Pattern { regex, cost: size >> 12 })),
        }
    }
}
