//! Whether a filter of a JSONPath holds for a value.
//!
//! Values are compared as JSON texts: literals are kept as such, and the functions that return
//! numbers return their text.
use crate::{
    equality::string,
    error::LocateError,
    jsonpath::{Filter, Operand, Operator, PATTERN_SIZES, PathKind, Pattern, PatternSource, SIZE_OF_TEXT, counted_len},
    query::Evaluation,
    scan::{Found, count},
};
use std::{borrow::Cow, cmp::Ordering};

/// Bytes that could be read in the time that a byte of a compiled regular expression takes, at most
/// about.
const COMPILE_WORK: usize = 8;
/// The same for a byte of its text, as [`counted_len`] counts.
const TEXT_WORK: usize = 1024;

impl Filter {
    /// Whether this holds for a value.
    pub(crate) fn holds<'v>(&'v self, run: &mut Evaluation<'v>, current: &Found) -> Result<bool, LocateError> {
        Ok(match self {
            Filter::Or(filters) => {
                for filter in filters {
                    if filter.holds(run, current)? {
                        return Ok(true);
                    }
                }
                false
            }
            Filter::And(filters) => {
                for filter in filters {
                    if !filter.holds(run, current)? {
                        return Ok(false);
                    }
                }
                true
            }
            Filter::Not(filter) => !filter.holds(run, current)?,
            Filter::Exists(query) => match query.kind {
                PathKind::Steps(_) => run.node(query, current)?.is_some(),
                PathKind::Segments(_) => !run.nodes(query, current)?.is_empty(),
            },
            Filter::Compare(left, operator, right) => {
                let (left, right) = (left.value(run, current)?, right.value(run, current)?);
                run.compare(|comparison| {
                    let mut is_equal = || match (&left, &right) {
                        (Some(left), Some(right)) => comparison.are_equal(left, right),
                        (left, right) => left.is_none() && right.is_none(),
                    };
                    match operator {
                        Operator::Equal => return is_equal(),
                        Operator::NotEqual => return !is_equal(),
                        Operator::LessOrEqual | Operator::GreaterOrEqual if is_equal() => return true,
                        _ => {}
                    }
                    let (Some(left), Some(right)) = (&left, &right) else { return false };
                    let wanted = match operator {
                        Operator::Less | Operator::LessOrEqual => Ordering::Less,
                        _ => Ordering::Greater,
                    };
                    comparison.order(left, right) == Some(wanted)
                })?
            }
            Filter::Matches { text, pattern, is_whole } => {
                let text = text.value(run, current)?;
                let Some(text) = text_of(run, text.as_deref())? else { return Ok(false) };
                match pattern {
                    PatternSource::Fixed(None) => false,
                    PatternSource::Fixed(Some(pattern)) => run.matches(&text, pattern)?,
                    PatternSource::Operand(operand) => {
                        let pattern = operand.value(run, current)?;
                        let Some(pattern) = text_of(run, pattern.as_deref())? else { return Ok(false) };
                        searched(run, &text, &pattern, *is_whole)?
                    }
                }
            }
        })
    }
}

/// Whether a text matches a pattern of the document. Most are the one of the value before.
fn searched(run: &mut Evaluation<'_>, text: &str, pattern: &str, is_whole: bool) -> Result<bool, LocateError> {
    let is_known = |known: &(Vec<u8>, bool, Option<Box<Pattern>>)| known.0 == pattern.as_bytes() && known.1 == is_whole;
    if !run.pattern.as_ref().is_some_and(is_known) {
        let (mut compiled, len) = (None, counted_len(pattern));
        for size in PATTERN_SIZES.into_iter().filter(|size| len <= size / SIZE_OF_TEXT) {
            run.charge(size * COMPILE_WORK + len * TEXT_WORK)?;
            if let Ok(pattern) = Pattern::new(pattern, is_whole, size) {
                compiled = pattern;
                break;
            }
        }
        run.pattern = Some((pattern.as_bytes().to_vec(), is_whole, compiled));
    }
    let known = run.pattern.take();
    let is_match = match &known {
        Some((.., Some(pattern))) => run.matches(text, pattern),
        _ => Ok(false),
    };
    run.pattern = known;
    is_match
}

/// What a JSON string stands for; `None`: the value is no string.
fn text_of<'t>(run: &mut Evaluation<'_>, value: Option<&'t [u8]>) -> Result<Option<Cow<'t, str>>, LocateError> {
    let Some(value) = value.filter(|value| value.first() == Some(&b'"')) else { return Ok(None) };
    run.charge(value.len())?;
    Ok(match string(value) {
        Cow::Borrowed(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
        Cow::Owned(text) => String::from_utf8(text).ok().map(Cow::Owned),
    })
}

impl Operand {
    /// Its value as JSON text.
    fn value<'v>(&'v self, run: &mut Evaluation<'v>, current: &Found) -> Result<Option<Cow<'v, [u8]>>, LocateError> {
        let number = |number: usize| Cow::Owned(number.to_string().into_bytes());
        Ok(match self {
            Operand::Literal(text) => Some(Cow::Borrowed(text)),
            Operand::Query(query) => run.node(query, current)?.map(|found| Cow::Borrowed(&run.text[found.span])),
            Operand::Value(query) => match &*run.nodes(query, current)? {
                [found] => Some(Cow::Borrowed(&run.text[found.span.clone()])),
                _ => None,
            },
            Operand::Count(query) => Some(number(run.nodes(query, current)?.len())),
            Operand::Length(of) => {
                let Some(of) = of.value(run, current)? else { return Ok(None) };
                run.charge(of.len())?;
                match of.first() {
                    Some(b'"') => {
                        // Characters: the bytes that do not continue one.
                        let characters = string(&of).iter().filter(|byte| **byte & 0xc0 != 0x80).count();
                        Some(number(characters))
                    }
                    Some(b'[' | b'{') => Some(number(count(&of, 0))),
                    _ => None,
                }
            }
        })
    }
}
