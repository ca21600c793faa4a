//! Changes of parts of a text, and the text after them.
use crate::scan::Span;

/// Replaces a part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// What is replaced; empty where something is inserted.
    pub at: Span,
    /// What takes its place.
    pub with: Vec<u8>,
    /// `at` is a whole element or member that goes, and so does one comma beside it.
    pub(crate) removes: bool,
}

impl Splice {
    pub(crate) fn replace(at: Span, with: impl Into<Vec<u8>>) -> Splice {
        Splice { at, with: with.into(), removes: false }
    }

    pub(crate) fn remove(place: Span) -> Splice {
        Splice { at: place, with: Vec::new(), removes: true }
    }

    /// This change as the only one of the text: a removal takes a comma along.
    pub(crate) fn alone(self, text: &[u8]) -> Splice {
        if !self.removes {
            return self;
        }
        let Span { start, end } = self.at;
        let at = if text.get(end) == Some(&b',') {
            start..end + 1
        } else if start > 0 && text[start - 1] == b',' {
            start - 1..end
        } else {
            start..end
        };
        Splice::replace(at, self.with)
    }

    /// How many bytes longer the text becomes.
    pub(crate) fn growth(&self) -> usize {
        self.with.len().saturating_sub(self.at.len())
    }
}

/// The text after changes that do not overlap, in their order in the text. Commas beside what goes
/// are settled.
pub fn apply(text: &[u8], splices: &[Splice]) -> Vec<u8> {
    let growth: usize = splices.iter().map(Splice::growth).sum();
    let mut out = Vec::with_capacity(text.len() + growth);
    let mut from = 0;
    let mut has_gap = false;
    for splice in splices {
        put(&mut out, &text[from..splice.at.start], &mut has_gap);
        put(&mut out, &splice.with, &mut has_gap);
        has_gap |= splice.removes;
        from = splice.at.end;
    }
    put(&mut out, &text[from..], &mut has_gap);
    out
}

/// Appends bytes. After a gap one comma too many may be around: before it stand the container's
/// begin or a comma.
fn put(out: &mut Vec<u8>, bytes: &[u8], has_gap: &mut bool) {
    let Some(&first) = bytes.first() else { return };
    let bytes = match first {
        b',' if *has_gap => &bytes[1..],
        b']' | b'}' if *has_gap => {
            out.pop_if(|last| *last == b',');
            bytes
        }
        _ => bytes,
    };
    *has_gap = false;
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comma_goes_with_what_is_removed() {
        let text = b"[1,2,3]";
        let places = [1..2, 3..4, 5..6];
        for (mask, left) in ["[1,2,3]", "[2,3]", "[1,3]", "[3]", "[1,2]", "[2]", "[1]", "[]"].iter().enumerate() {
            let gone: Vec<Splice> =
                (0..3).filter(|bit| mask >> bit & 1 == 1).map(|bit| Splice::remove(places[bit].clone())).collect();
            assert_eq!(apply(text, &gone), left.as_bytes());
            if let [one] = &*gone {
                let alone = one.clone().alone(text);
                assert_eq!(apply(text, &[alone]), left.as_bytes());
            }
        }
    }

    #[test]
    fn what_is_added_where_all_else_goes_has_no_comma() {
        let splices = [Splice::remove(1..6), Splice::replace(6..6, *b",\"b\":2")];
        assert_eq!(apply(b"{\"a\":1}", &splices), b"{\"b\":2}");
    }
}
