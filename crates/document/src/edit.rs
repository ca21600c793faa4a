//! What commands do to the values that a path finds.
use crate::{
    compact::MAX_DEPTH,
    decimal::Decimal,
    merge::merges,
    number::{NumberEdit, Operand, changed},
    scan::{Found, Span, count, element, is_empty, parts, place_of, value_end},
    splice::{Splice, apply},
    string::{push_key, unescaped_len},
};
use std::fmt;

/// A change of one value. Texts are compact.
#[derive(Debug, Clone, Copy)]
pub enum Edit<'e> {
    /// Another value in its place.
    Replace(&'e [u8]),
    /// Gone, with its key.
    Delete,
    /// One more member of an object that lacks it.
    AddMember(&'e str, &'e [u8]),
    /// More elements at an array's end.
    Append(&'e [Vec<u8>]),
    /// Like `Append`, for an array that is known to have so many elements, which are not looked at.
    AppendKnowing(usize, &'e [Vec<u8>]),
    /// More elements before this one; negative: counted from the end.
    Insert(i64, &'e [Vec<u8>]),
    /// An element is taken out; negative: counted from the end; beyond an end: the first or the
    /// last.
    Pop(i64),
    /// Only the elements from the first to the second of these stay.
    Trim(i64, i64),
    /// Arithmetic with a number, given as JSON text.
    Number(NumberEdit, &'e str),
    /// More text at a string's end, given as the inside of a JSON string.
    AppendText(&'e [u8]),
    /// The other truth value.
    Toggle,
    /// An empty container, or 0.
    Clear,
    /// RFC 7386.
    Merge(&'e [u8]),
}

/// What an edit tells of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was changed.
    Done,
    /// It was as it would become.
    Unchanged,
    /// The new length, or 1 and 0 for a truth value.
    Integer(i64),
    /// The new number, as JSON text.
    Number(String),
    /// What was taken out; `None`: there was nothing.
    Taken(Option<Vec<u8>>),
}

/// Why nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditError {
    /// The result would be nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// There is no such element to insert before.
    OutOfBounds,
    /// The result is not a number of JSON.
    NotANumber,
    /// The result does not fit the integers.
    Overflow,
    /// The result would be longer than this many bytes.
    TooLarge(usize),
    /// Changing this many values would go over too many bytes.
    TooMuchWork(usize),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::TooDeep => write!(f, "arrays and objects would be nested deeper than {MAX_DEPTH}"),
            EditError::OutOfBounds => f.write_str("index out of bounds"),
            EditError::NotANumber => f.write_str("result is not a number"),
            EditError::Overflow => f.write_str("numeric overflow"),
            EditError::TooLarge(most) => write!(f, "the document would be longer than {most} bytes"),
            EditError::TooMuchWork(values) => {
                write!(f, "the path finds {values} values, too many for one such change; use several commands")
            }
        }
    }
}

impl std::error::Error for EditError {}

/// A document after an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edited {
    /// As before.
    Same,
    /// One part is replaced.
    Part(Splice),
    /// Another text.
    Whole(Vec<u8>),
}

impl Edited {
    /// Of changes in their order in the text.
    pub(crate) fn of(text: &[u8], mut splices: Vec<Splice>) -> Edited {
        match splices.len() {
            0 => Edited::Same,
            1 => splices.pop().map_or(Edited::Same, |splice| Edited::Part(splice.alone(text))),
            _ => Edited::Whole(apply(text, &splices)),
        }
    }

    /// The length of the text after it, bytes.
    pub fn len_after(&self, before: usize) -> usize {
        match self {
            Edited::Same => before,
            Edited::Part(splice) => before - splice.at.len() + splice.with.len(),
            Edited::Whole(text) => text.len(),
        }
    }
}

/// Bytes that a command or a patch may copy or read, where it goes over the same texts repeatedly:
/// some tenths of a second.
pub const MOST_WORK: usize = 1 << 30;

impl Edit<'_> {
    /// Whether a change of a value can be seen by a change of a value around it. Scalars have no
    /// values within them, and what is added to an array has its own place beside what is added to
    /// an array in it.
    fn meets_itself(&self) -> bool {
        !matches!(self, Edit::Number(..) | Edit::AppendText(_) | Edit::Toggle | Edit::Append(_) | Edit::Insert(..))
    }

    /// Whether this is for values of that kind.
    fn fits(&self, text: &[u8], value: &Span) -> bool {
        let first = text.get(value.start).copied();
        match self {
            Edit::Replace(_) | Edit::Delete | Edit::Merge(_) => true,
            Edit::AddMember(..) => first == Some(b'{'),
            Edit::Append(_) | Edit::AppendKnowing(..) | Edit::Insert(..) | Edit::Pop(_) | Edit::Trim(..) => {
                first == Some(b'[')
            }
            Edit::Number(..) => matches!(first, Some(b'-' | b'0'..=b'9')),
            Edit::AppendText(_) => first == Some(b'"'),
            Edit::Toggle => matches!(first, Some(b't' | b'f')),
            Edit::Clear => matches!(first, Some(b'{' | b'[' | b'-' | b'0'..=b'9')),
        }
    }

    /// Applies it once to all values that were found, in whatever order. For each of them the outcome,
    /// for a deletion only of the outermost; `None`: it is not for values of that kind.
    ///
    /// # Errors
    /// One of the values cannot be changed like this, or the text would be longer than `max_len`
    /// bytes. Then nothing is changed.
    pub fn apply(
        &self,
        text: &[u8],
        found: &[Found],
        max_len: usize,
    ) -> Result<(Edited, Vec<Option<Outcome>>), EditError> {
        if found.is_sorted_by(|a, b| a.span.start < b.span.start) {
            return self.apply_in_order(text, found, max_len);
        }
        let mut ordered = found.to_vec();
        ordered.sort_unstable_by_key(|found| found.span.start);
        ordered.dedup();
        let (edited, outcomes) = self.apply_in_order(text, &ordered, max_len)?;
        if matches!(self, Edit::Replace(_) | Edit::Delete | Edit::Clear) {
            return Ok((edited, outcomes));
        }
        let of = |found: &Found| ordered.binary_search_by_key(&found.span.start, |known| known.span.start);
        let outcomes = found.iter().map(|found| outcomes.get(of(found).ok()?)?.clone()).collect();
        Ok((edited, outcomes))
    }

    fn apply_in_order(
        &self,
        text: &[u8],
        found: &[Found],
        max_len: usize,
    ) -> Result<(Edited, Vec<Option<Outcome>>), EditError> {
        // A merge goes over the whole patch for each value, also where it changes nothing.
        if let Edit::Merge(patch) = self
            && found.len() > 1
            && found.len().saturating_mul(patch.len()) > MOST_WORK
        {
            return Err(EditError::TooMuchWork(found.len()));
        }
        let by = if let Edit::Number(_, by) = self { by } else { "" };
        let by = Operand::of(by);
        let is_nested = found.windows(2).any(|pair| pair[1].span.start < pair[0].span.end);
        if !self.meets_itself() || !is_nested {
            let mut splices = Vec::new();
            let mut outcomes = Vec::with_capacity(found.len());
            let mut added = 0;
            for found in found {
                let known = splices.len();
                outcomes.push(self.plan(text, found, by, &mut splices)?);
                // Before there is more of it than a document may have: a short command may find many values.
                added += splices[known..].iter().map(|splice| splice.with.len()).sum::<usize>();
                if added > max_len {
                    return Err(EditError::TooLarge(max_len));
                }
            }
            if is_nested {
                splices.sort_unstable_by_key(|splice| splice.at.start);
            }
            if len_after(text, &splices) > max_len {
                return Err(EditError::TooLarge(max_len));
            }
            return Ok((Edited::of(text, splices), outcomes));
        }
        if matches!(self, Edit::Replace(_) | Edit::Delete) {
            // What is within a value that goes, goes with it.
            let mut end = 0;
            let outermost: Vec<Found> = found
                .iter()
                .filter(|found| {
                    let is_outermost = found.span.start >= end;
                    end = end.max(found.span.end);
                    is_outermost
                })
                .cloned()
                .collect();
            return self.apply_in_order(text, &outermost, max_len);
        }
        // From the last to the first, so that what is within a value is changed before it, and earlier
        // places stay right.
        let mut changed = text.to_vec();
        let mut outcomes = vec![None; found.len()];
        let (values, mut work) = (found.len(), 0);
        for (found, outcome) in found.iter().zip(&mut outcomes).rev() {
            let end = value_end(&changed, found.span.start).unwrap_or(changed.len());
            let now = Found { span: found.span.start..end, depth: found.depth };
            let mut splices = Vec::new();
            *outcome = self.plan(&changed, &now, by, &mut splices)?;
            if len_after(&changed, &splices) > max_len {
                return Err(EditError::TooLarge(max_len));
            }
            if !splices.is_empty() {
                work += changed.len();
                if work > MOST_WORK {
                    return Err(EditError::TooMuchWork(values));
                }
                changed = match Edited::of(&changed, splices) {
                    Edited::Same => changed,
                    Edited::Part(splice) => apply(&changed, &[splice]),
                    Edited::Whole(text) => text,
                };
            }
        }
        Ok((Edited::Whole(changed), outcomes))
    }

    /// Notes the changes of one value. `by`: the number of an [`Edit::Number`].
    fn plan(
        &self,
        text: &[u8],
        found: &Found,
        by: Operand,
        splices: &mut Vec<Splice>,
    ) -> Result<Option<Outcome>, EditError> {
        let value = &found.span;
        if !self.fits(text, value) {
            return Ok(None);
        }
        let below = |added: &[u8], containers: usize| match found.depth + containers + depth(added) > MAX_DEPTH {
            true => Err(EditError::TooDeep),
            false => Ok(()),
        };
        Ok(Some(match *self {
            Edit::Replace(with) => {
                below(with, 0)?;
                splices.push(Splice::replace(value.clone(), with));
                Outcome::Done
            }
            Edit::Delete => {
                splices.push(Splice::remove(place_of(text, value)));
                Outcome::Done
            }
            Edit::AddMember(key, with) => {
                below(with, 1)?;
                let mut member = Vec::with_capacity(key.len() + with.len() + 4);
                if !is_empty(text, value.start) {
                    member.push(b',');
                }
                push_key(&mut member, key.as_bytes());
                member.push(b':');
                member.extend_from_slice(with);
                splices.push(Splice::replace(value.end - 1..value.end - 1, member));
                Outcome::Done
            }
            Edit::Append(values) | Edit::AppendKnowing(_, values) => {
                values.iter().try_for_each(|added| below(added, 1))?;
                let before = if let Edit::AppendKnowing(known, _) = *self { known } else { count(text, value.start) };
                let at = value.end - 1;
                splices.push(Splice::replace(at..at, list(values, before > 0, false)));
                Outcome::Integer((before + values.len()) as i64)
            }
            Edit::Insert(index, values) => {
                values.iter().try_for_each(|added| below(added, 1))?;
                let before = count(text, value.start) as i64;
                let index = if index < 0 { index.saturating_add(before) } else { index };
                if !(0..=before).contains(&index) {
                    return Err(EditError::OutOfBounds);
                }
                let splice = match element(text, value.start, index as usize) {
                    Some(next) => Splice::replace(next.start..next.start, list(values, false, true)),
                    None => Splice::replace(value.end - 1..value.end - 1, list(values, before > 0, false)),
                };
                splices.push(splice);
                Outcome::Integer(before + values.len() as i64)
            }
            Edit::Pop(index) => {
                let len = count(text, value.start) as i64;
                let index = if index < 0 { index.saturating_add(len).max(0) } else { index.min(len - 1) };
                let taken = usize::try_from(index).ok().and_then(|index| element(text, value.start, index));
                let text_of = taken.clone().map(|taken| text[taken].to_vec());
                splices.extend(taken.map(Splice::remove));
                Outcome::Taken(text_of)
            }
            Edit::Trim(start, stop) => {
                let elements = parts(text, value.start);
                let len = elements.len() as i64;
                let normal = |index: i64| if index < 0 { (len + index).max(0) } else { index.min((len - 1).max(0)) };
                let stop = normal(stop);
                let start = if start < len { normal(start) } else { stop + 1 };
                let kept = if start > stop || len == 0 { 0..0 } else { start as usize..stop as usize + 1 };
                let left = kept.len() as i64;
                if left < len {
                    let with = match (elements.get(kept.start), elements.get(kept.end.wrapping_sub(1))) {
                        (Some(first), Some(last)) if left > 0 => &text[first.start..last.end],
                        _ => &[],
                    };
                    splices.push(Splice::replace(value.start + 1..value.end - 1, with));
                }
                Outcome::Integer(left)
            }
            Edit::Number(edit, _) => {
                let number = changed(edit, &text[value.clone()], by)?;
                splices.push(Splice::replace(value.clone(), number.as_bytes()));
                Outcome::Number(number)
            }
            Edit::AppendText(more) => {
                let inside = &text[value.start + 1..value.end - 1];
                splices.push(Splice::replace(value.end - 1..value.end - 1, more));
                Outcome::Integer((unescaped_len(inside) + unescaped_len(more)) as i64)
            }
            Edit::Toggle => {
                let becomes = text[value.start] == b'f';
                let with: &[u8] = if becomes { b"true" } else { b"false" };
                splices.push(Splice::replace(value.clone(), with));
                Outcome::Integer(i64::from(becomes))
            }
            Edit::Clear => {
                let empty: &[u8] = match text[value.start] {
                    b'{' => b"{}",
                    b'[' => b"[]",
                    _ => b"0",
                };
                let held = &text[value.clone()];
                let is_zero = empty == b"0" && Decimal::of(held).is_zero();
                if held == empty || is_zero {
                    return Ok(Some(Outcome::Unchanged));
                }
                splices.push(Splice::replace(value.clone(), empty));
                Outcome::Done
            }
            Edit::Merge(patch) => {
                below(patch, 0)?;
                let mut changes = merges(text, value, patch);
                changes.retain(|splice| splice.removes || text[splice.at.clone()] != *splice.with);
                let outcome = if changes.is_empty() { Outcome::Unchanged } else { Outcome::Done };
                splices.append(&mut changes);
                outcome
            }
        }))
    }
}

/// The least length of a text after changes that do not overlap.
fn len_after(text: &[u8], splices: &[Splice]) -> usize {
    let added: usize = splices.iter().map(|splice| splice.with.len()).sum();
    // Where something is removed, a comma may go with it.
    let gone: usize = splices.iter().map(|splice| splice.at.len() + usize::from(splice.removes)).sum();
    (text.len() + added).saturating_sub(gone)
}

/// Values with commas between them, and before or after them.
fn list(values: &[Vec<u8>], before: bool, after: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.iter().map(|value| value.len() + 1).sum());
    for (index, value) in values.iter().enumerate() {
        if before || index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(value);
    }
    if after {
        out.push(b',');
    }
    out
}

/// How deep the containers of a text are nested.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut at) = (0_usize, 0, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = crate::scan::value_end_of_string(text, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        at += 1;
    }
    deepest
}
