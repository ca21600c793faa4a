//! Evaluates the segments of a JSONPath (RFC 9535) over the text of a document, by scanning it.
//!
//! Paths and documents are the client's, so an evaluation has two limits: how many values a segment
//! may find, and how many bytes it may read. A query from the root within a filter runs once.
use crate::{
    compact::MAX_DEPTH,
    equality::Comparison,
    error::LocateError,
    jsonpath::{FilterQuery, Origin, PathKind, Pattern, Segment, Selector, Step},
    scan::{Found, child, count, element, key_and_value, parts},
};
use std::rc::Rc;

/// Values that a path may find in all, if it can find one more than once.
const MAX_FOUND: usize = 1_000_000;
/// Bytes that a path with limits may read: some tenths of a second.
const MAX_WORK: usize = 1 << 30;
/// A path with limits may read a large document this many times, if that is more than [`MAX_WORK`].
const MAX_PASSES: usize = 64;
/// A look at a short value takes as long as reading so many bytes.
const LEAST_WORK: usize = 64;

/// A found value that is kept until the end of an evaluation counts like reading so many bytes: there are a
/// million of them at most.
const KEPT_WORK: usize = 1024;

/// Whether no value is found twice, and the text is read once for each level at most.
pub(crate) fn is_bounded(segments: &[Segment]) -> bool {
    let is_simple = |segment: &Segment| matches!(&*segment.selectors, [Selector::One(_) | Selector::All]);
    segments.iter().all(is_simple) && segments.iter().filter(|segment| segment.is_descendant).count() <= 1
}

/// One evaluation of a path over a text.
pub(crate) struct Evaluation<'v> {
    pub(crate) text: &'v [u8],
    /// `None`: the path is bounded by itself.
    most_found: Option<usize>,
    max_work: usize,
    work: usize,
    /// What the queries from the root within filters have found.
    from_root: Vec<Option<Rc<[Found]>>>,
    /// The last pattern that came from the document.
    pub(crate) pattern: Option<(Vec<u8>, bool, Option<Pattern>)>,
}

impl<'v> Evaluation<'v> {
    /// For a path with so many queries from the root within its filters.
    pub(crate) fn new(text: &'v [u8], from_root: usize, is_bounded: bool) -> Evaluation<'v> {
        // No text has more values than this, so only repeated ones can exceed it.
        let most_found = MAX_FOUND.max(text.len() / 2 + 1);
        let max_work = MAX_WORK.max(text.len().saturating_mul(MAX_PASSES));
        Evaluation {
            text,
            most_found: (!is_bounded).then_some(most_found),
            max_work: if is_bounded { usize::MAX } else { max_work },
            work: 0,
            from_root: vec![None; from_root],
            pattern: None,
        }
    }

    /// Counts bytes that are read.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), LocateError> {
        self.work = self.work.saturating_add(bytes);
        match self.work <= self.max_work {
            true => Ok(()),
            false => Err(LocateError::TooMuchWork(self.max_work)),
        }
    }

    /// What the segments find from a value, in the order of RFC 9535, with duplicates.
    pub(crate) fn select(&mut self, from: Found, segments: &'v [Segment]) -> Result<Vec<Found>, LocateError> {
        let mut found = vec![from];
        for segment in segments {
            let mut next = Vec::new();
            for from in found {
                match segment.is_descendant {
                    true => self.descend(from, &segment.selectors, &mut next)?,
                    false => self.apply(&from, &segment.selectors, &mut next)?,
                }
            }
            found = next;
        }
        Ok(found)
    }

    fn descend(&mut self, from: Found, selectors: &'v [Selector], out: &mut Vec<Found>) -> Result<(), LocateError> {
        // Those that come next are last.
        let mut waiting = vec![from];
        while let Some(next) = waiting.pop() {
            self.apply(&next, selectors, out)?;
            if next.depth < MAX_DEPTH {
                let already = waiting.len();
                waiting.extend(self.children(&next)?);
                waiting[already..].reverse();
            }
        }
        Ok(())
    }

    fn apply(&mut self, from: &Found, selectors: &'v [Selector], out: &mut Vec<Found>) -> Result<(), LocateError> {
        for selector in selectors {
            match selector {
                Selector::One(step) => out.extend(self.part(from, step)?),
                Selector::All => out.extend(self.children(from)?),
                Selector::Slice { start, stop, step } if self.text.get(from.span.start) == Some(&b'[') => {
                    let elements: Vec<Found> = self.children(from)?.collect();
                    out.extend(sliced(elements.len(), *start, *stop, *step).map(|index| elements[index].clone()));
                }
                Selector::Slice { .. } => {}
                Selector::Filter(filter) => {
                    for child in self.children(from)? {
                        if filter.holds(self, &child)? {
                            out.push(child);
                        }
                    }
                }
            }
            if let Some(most) = self.most_found.filter(|most| out.len() > *most) {
                return Err(LocateError::TooMany(most));
            }
        }
        Ok(())
    }

    /// The elements of an array, or the values of an object's members.
    fn children(&mut self, of: &Found) -> Result<impl Iterator<Item = Found> + use<'v>, LocateError> {
        let (text, at, depth) = (self.text, of.span.start, of.depth + 1);
        let first = text.get(at).copied();
        self.charge(LEAST_WORK + if let Some(b'[' | b'{') = first { of.span.len() } else { 0 })?;
        let (parts, is_object) = match first {
            Some(b'[') => (parts(text, at), false),
            Some(b'{') => (parts(text, at), true),
            _ => (Vec::new(), false),
        };
        Ok(parts.into_iter().filter_map(move |part| {
            let span = if is_object { key_and_value(text, part)?.1 } else { part };
            Some(Found { span, depth })
        }))
    }

    fn part(&mut self, from: &Found, step: &Step) -> Result<Option<Found>, LocateError> {
        let found = part(self.text, from, step);
        let read = match (&found, step) {
            (Some(found), Step::Key(_) | Step::Index(0..)) => found.span.end - from.span.start,
            _ => from.span.len(),
        };
        self.charge(LEAST_WORK + read)?;
        Ok(found)
    }

    /// The values that a query within a filter finds.
    pub(crate) fn nodes(&mut self, query: &'v FilterQuery, current: &Found) -> Result<Rc<[Found]>, LocateError> {
        let (from, known) = match query.origin {
            Origin::Current => (current.clone(), None),
            Origin::Root(number) => (Found::root(self.text), Some(number)),
        };
        if let Some(found) = known.and_then(|number| self.from_root.get(number)?.clone()) {
            return Ok(found);
        }
        let found: Rc<[Found]> = match &query.kind {
            PathKind::Steps(steps) => self.follow(from, steps)?.into_iter().collect(),
            PathKind::Segments(segments) => self.select(from, segments)?.into(),
        };
        if known.is_some() {
            self.charge(found.len() * KEPT_WORK)?;
        }
        if let Some(slot) = known.and_then(|number| self.from_root.get_mut(number)) {
            *slot = Some(found.clone());
        }
        Ok(found)
    }

    /// The value that a query to one place finds.
    pub(crate) fn node(&mut self, query: &'v FilterQuery, current: &Found) -> Result<Option<Found>, LocateError> {
        match (&query.kind, query.origin) {
            (PathKind::Steps(steps), Origin::Current) => self.follow(current.clone(), steps),
            _ => Ok(self.nodes(query, current)?.first().cloned()),
        }
    }

    fn follow(&mut self, mut from: Found, steps: &[Step]) -> Result<Option<Found>, LocateError> {
        for step in steps {
            match self.part(&from, step)? {
                Some(found) => from = found,
                None => return Ok(None),
            }
        }
        Ok(Some(from))
    }

    /// Compares two values, and counts what that took.
    pub(crate) fn compare<R>(&mut self, compare: impl FnOnce(&mut Comparison) -> R) -> Result<R, LocateError> {
        let mut comparison = Comparison::default();
        let result = compare(&mut comparison);
        self.charge(LEAST_WORK + comparison.work)?;
        Ok(result)
    }
}

/// The value at the end of the steps.
pub(crate) fn follow(text: &[u8], steps: &[Step]) -> Option<Found> {
    steps.iter().try_fold(Found::root(text), |from, step| part(text, &from, step))
}

/// The part of a value to which a step goes.
fn part(text: &[u8], from: &Found, step: &Step) -> Option<Found> {
    let at = from.span.start;
    let span = match (step, text.get(at)?) {
        (Step::Key(key), b'{') => child(text, at, key),
        (Step::Index(index), b'[') => {
            let index = match index {
                0.. => usize::try_from(*index).ok()?,
                _ => usize::try_from(i64::try_from(count(text, at)).ok()? + index).ok()?,
            };
            element(text, at, index)
        }
        _ => None,
    };
    Some(Found { span: span?, depth: from.depth + 1 })
}

/// The indexes of a slice of an array with so many elements, in its order.
fn sliced(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let resolved = |index: i64| if index < 0 { len + index } else { index };
    // The bounds of RFC 9535, 2.3.4.2.2: the first index, and the one before which it ends.
    let (first, end) = match step {
        0.. => (resolved(start.unwrap_or(0)).clamp(0, len), resolved(stop.unwrap_or(len)).clamp(0, len)),
        _ => (start.map_or(len - 1, resolved).clamp(-1, len - 1), stop.map_or(-1, resolved).clamp(-1, len - 1)),
    };
    let count = match step {
        0 => 0,
        1.. => (end - first + step - 1) / step,
        _ => (first - end - step - 1) / -step,
    };
    (0..count.max(0)).filter_map(move |number| usize::try_from(first + number * step).ok())
}
