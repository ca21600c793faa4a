//! Evaluates the segments of a JSONPath (RFC 9535) over the text of a document, by scanning it.
//!
//! Paths and documents are the client's, so an evaluation has two limits: how many values a segment
//! may find, and how many bytes it may read. A query from the root within a filter runs once.
use crate::{
    compact::MAX_DEPTH,
    edit::MOST_WORK,
    equality::Comparison,
    error::LocateError,
    jsonpath::{FilterQuery, Origin, PathKind, Pattern, Segment, Selector, Step},
    scan::{Found, Span, child, count, element, key_and_value, needle, parts, value_end_of_string, walk_all},
};
use std::rc::Rc;

/// Values that a path may find in all, or one for so many bytes of the document, if that is more.
const MAX_FOUND: usize = 1_000_000;
const BYTES_FOR_ONE: usize = 16;
/// A path with limits may read a large document this many times, if that is more than [`MOST_WORK`].
const MAX_PASSES: usize = 64;
/// A look at a short value takes as long as reading so many bytes.
const LEAST_WORK: usize = 64;

/// A descent through dense text takes as long as reading this many times.
const DESCENT_WORK: usize = 4;

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
    /// No value is found twice.
    is_bounded: bool,
    most_found: usize,
    max_work: usize,
    pub(crate) work: usize,
    /// What the queries from the root within filters have found.
    from_root: Vec<Option<Rc<[Found]>>>,
    /// The last pattern that came from the document.
    pub(crate) pattern: Option<(Vec<u8>, bool, Option<Box<Pattern>>)>,
}

impl<'v> Evaluation<'v> {
    /// For a path with so many queries from the root within its filters.
    pub(crate) fn new(text: &'v [u8], from_root: usize, is_bounded: bool) -> Evaluation<'v> {
        Evaluation {
            text,
            is_bounded,
            most_found: MAX_FOUND.max(text.len() / BYTES_FOR_ONE),
            max_work: if is_bounded { usize::MAX } else { max_work(text) },
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

    /// Whether a text matches a regular expression.
    pub(crate) fn matches(&mut self, text: &str, pattern: &Pattern) -> Result<bool, LocateError> {
        pattern.is_match(text, |work| self.charge(work).is_ok()).ok_or(LocateError::TooMuchWork(self.max_work))
    }

    /// What the segments find from a value, in the order of RFC 9535, with duplicates.
    pub(crate) fn select(&mut self, from: Found, segments: &'v [Segment]) -> Result<Vec<Found>, LocateError> {
        let mut found = vec![from];
        for segment in segments {
            let mut next = Vec::new();
            for from in found {
                match (segment.is_descendant, &*segment.selectors) {
                    (true, [selector]) if self.is_bounded => self.descend_once(&from, selector, &mut next)?,
                    (true, selectors) => self.descend(from, selectors, &mut next)?,
                    (false, selectors) => self.apply(&from, selectors, &mut next)?,
                }
            }
            found = next;
        }
        Ok(found)
    }

    /// `..` with one key, one index or `*`: one walk through the text, whatever the depth. What a
    /// container has comes before what the containers in it have.
    fn descend_once(&mut self, from: &Found, selector: &Selector, out: &mut Vec<Found>) -> Result<(), LocateError> {
        self.charge(LEAST_WORK + DESCENT_WORK * from.span.len())?;
        let (text, most) = (self.text, self.most_found);
        let left = most.saturating_sub(out.len());
        let Some(b'[' | b'{') = text.get(from.span.start) else { return Ok(()) };
        let mut walk = Descent::new(text, selector, from.depth);
        walk_all(text, from.span.start, |place, byte| {
            walk.meets(place, byte);
            match walk.found.len() <= left {
                true => Ok(()),
                false => Err(LocateError::TooMany(most)),
            }
        })?;
        let found = &mut walk.found;
        if !found.is_sorted_by_key(|(container, _)| *container) {
            found.sort_by_key(|(container, _)| *container);
        }
        out.extend(walk.found.into_iter().map(|(_, found)| found));
        Ok(())
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
                // Counted first where the list would be long.
                Selector::All if from.span.len() > self.most_found && self.has_too_many(from, out.len()) => {
                    return Err(LocateError::TooMany(self.most_found));
                }
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
            if out.len() > self.most_found {
                return Err(LocateError::TooMany(self.most_found));
            }
        }
        Ok(())
    }

    fn has_too_many(&self, of: &Found, already: usize) -> bool {
        let is_container = matches!(self.text.get(of.span.start), Some(b'[' | b'{'));
        is_container && count(self.text, of.span.start) + already > self.most_found
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

/// Bytes that a path with limits may read of a text, and the paths of one command together.
pub(crate) fn max_work(text: &[u8]) -> usize {
    MOST_WORK.max(text.len().saturating_mul(MAX_PASSES))
}

/// A walk through all containers of a text, which notes the values that a selector finds in each.
struct Descent<'t> {
    text: &'t [u8],
    /// The key as it stands in the text, with quotes and colon.
    key: Option<Vec<u8>>,
    index: Option<i64>,
    depth: usize,
    open: Vec<Container>,
    /// The elements of the open arrays, for an index from the end.
    elements: Vec<Span>,
    /// With the place of the container.
    found: Vec<(usize, Found)>,
}

/// An open container.
struct Container {
    at: usize,
    is_object: bool,
    /// How many elements or members have ended.
    ended: i64,
    /// Where the value of the current one begins.
    value: usize,
    /// The current one is selected.
    is_selected: bool,
    /// The elements of the containers around it.
    before: usize,
}

impl<'t> Descent<'t> {
    fn new(text: &'t [u8], selector: &Selector, depth: usize) -> Descent<'t> {
        let (key, index) = match selector {
            Selector::One(Step::Key(key)) => (Some(needle(key)), None),
            Selector::One(Step::Index(index)) => (None, Some(*index)),
            _ => (None, None),
        };
        Descent { text, key, index, depth, open: Vec::new(), elements: Vec::new(), found: Vec::new() }
    }

    /// The walk has come to a bracket or a comma.
    fn meets(&mut self, place: usize, byte: u8) {
        match byte {
            b'[' | b'{' => {
                let (is_object, before) = (byte == b'{', self.elements.len());
                self.open.push(Container { at: place, is_object, ended: 0, value: 0, is_selected: false, before });
                self.begin(place + 1);
            }
            b',' => {
                self.end(place);
                self.begin(place + 1);
            }
            _ => {
                if self.open.last().is_some_and(|of| place > of.at + 1) {
                    self.end(place);
                }
                let Some(closed) = self.open.pop() else { return };
                let own = &self.elements[closed.before..];
                let from_end = self.index.filter(|index| *index < 0).map(|index| own.len() as i64 + index);
                let span = from_end.and_then(|at| own.get(usize::try_from(at).ok()?)).cloned();
                self.elements.truncate(closed.before);
                if let Some(span) = span {
                    let depth = self.depth + self.open.len() + 1;
                    self.found.push((closed.at, Found { span, depth }));
                }
            }
        }
    }

    /// An element or a member begins here, or the container ends.
    fn begin(&mut self, at: usize) {
        let Some(of) = self.open.last_mut() else { return };
        (of.value, of.is_selected) = match (of.is_object, &self.key, self.index) {
            (true, Some(key), _) if self.text[at..].starts_with(key) => (at + key.len(), true),
            (true, None, None) => (value_end_of_string(self.text, at) + 1, true),
            (true, ..) => (at, false),
            (false, Some(_), _) => (at, false),
            (false, None, index) => (at, index.is_none_or(|index| index == of.ended)),
        };
    }

    fn end(&mut self, at: usize) {
        let depth = self.depth + self.open.len();
        let Some(of) = self.open.last_mut() else { return };
        of.ended += 1;
        // Other bytes than those of a document may give any places.
        if of.value >= at {
            return;
        }
        if of.is_selected {
            self.found.push((of.at, Found { span: of.value..at, depth }));
        } else if !of.is_object && self.index.is_some_and(|index| index < 0) {
            self.elements.push(of.value..at);
        }
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
