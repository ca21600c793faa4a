//! What the text of a JSONPath tells of what it finds: how often it may come to values, and in what
//! order. A short path with several selectors in brackets, or with several `..`, may find the same
//! value millions of times (RFC 9535 keeps duplicates).

/// Values that a path may find in all, if it can find one more than once.
pub(crate) const MAX_VISITS: u64 = 1_000_000;

/// What makes a path find a value more than once, and which order its values have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The selectors of each pair of brackets, multiplied.
    alternatives: u64,
    /// How many `..` it has.
    descents: u32,
    /// Queries from the root within filters that may find many values. Each runs for every value that
    /// is filtered.
    from_root: u32,
    /// A slice counts from the end.
    is_reversed: bool,
    /// Levels from the value at which its last `..` ends down to the one that is found.
    levels: usize,
}

/// The order of what a path finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// As in the text.
    Text,
    /// By the value so many levels above, then as in the text.
    Above(usize),
    /// As the library finds them.
    Found,
}

impl Shape {
    /// Of a path in the standard's notation. What stands in filters counts for the visits as well.
    pub(crate) fn of(path: &str) -> Shape {
        let mut shape = Shape { alternatives: 1, descents: 0, from_root: 0, is_reversed: false, levels: 0 };
        // For each open bracket the selectors so far, and the colons of the last; none for a parenthesis.
        let mut open: Vec<Option<(u64, u32)>> = Vec::new();
        let bytes = path.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let is_segment = open.is_empty();
            match byte {
                quote @ (b'"' | b'\'') => {
                    at += 1;
                    while bytes.get(at).is_some_and(|inside| inside != quote) {
                        at += if bytes[at] == b'\\' { 2 } else { 1 };
                    }
                }
                b'[' => {
                    shape.levels += usize::from(is_segment && !path[..at].ends_with(".."));
                    open.push(Some((1, 0)));
                }
                b'(' => open.push(None),
                b',' => {
                    if let Some(Some((selectors, colons))) = open.last_mut() {
                        *selectors += 1;
                        *colons = 0;
                    }
                }
                b':' => {
                    if let Some(Some((_, colons))) = open.last_mut() {
                        *colons += 1;
                        shape.is_reversed |= *colons == 2 && bytes.get(at + 1) == Some(&b'-');
                    }
                }
                b']' | b')' => {
                    if let Some(Some((selectors, _))) = open.pop() {
                        shape.alternatives = shape.alternatives.saturating_mul(selectors);
                    }
                }
                b'.' if bytes.get(at + 1) == Some(&b'.') => {
                    shape.descents += 1;
                    shape.levels = if is_segment { 1 } else { shape.levels };
                    at += 1;
                }
                b'.' => shape.levels += usize::from(is_segment),
                b'$' if at > 0 && finds_many(&bytes[at..]) => shape.from_root += 1,
                _ => {}
            }
            at += 1;
        }
        shape
    }

    /// The order of RFC 9535, with the members of objects as in the text. The library has no such order
    /// of members, so with several `..`, or several selectors, some are in the order of their keys.
    pub(crate) fn order(self) -> Order {
        match self.descents {
            _ if self.alternatives > 1 || self.is_reversed => Order::Found,
            0 => Order::Text,
            1 => Order::Above(self.levels),
            _ => Order::Found,
        }
    }

    /// Whether it may come to more values than [`MAX_VISITS`], of a document with these numbers of
    /// values at each depth.
    pub(crate) fn is_too_high(self, values_at: &[u64]) -> bool {
        let values = values_at.iter().sum::<u64>();
        // A value below others is found once for each choice of the places where a `..` ends. Fewer may
        // end on the way to it, and no number of places has more choices than half of them.
        let choices = |depth: u64| {
            let most = u64::from(self.descents.saturating_sub(1)).min(depth / 2);
            (0..most).fold(1_u64, |choices, chosen| choices.saturating_mul(depth.saturating_sub(chosen)) / (chosen + 1))
        };
        let found = (0_u64..)
            .zip(values_at)
            .fold(0_u64, |found, (depth, values)| found.saturating_add(values.saturating_mul(choices(depth))));
        let visits = found.saturating_mul(self.alternatives).saturating_mul(values.saturating_pow(self.from_root));
        visits > values && visits > MAX_VISITS
    }
}

/// Whether the query at the start of this text may find more than one value.
fn finds_many(query: &[u8]) -> bool {
    let end = query.iter().position(|byte| b" )&|=<>!".contains(byte)).unwrap_or(query.len());
    query[..end].iter().any(|byte| b"*?:".contains(byte)) || query[..end].windows(2).any(|pair| pair == b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_and_descents_are_counted() {
        for (path, alternatives, descents, from_root) in [
            ("$.a[0]", 1, 0, 0),
            ("$[0,1]['a,b',\"c\\\",\",*]", 6, 0, 0),
            ("$..a..b[?count($.d[0,1]) == count($..e)]", 2, 3, 1),
            ("$[?search(@.a, 'x..,')]", 1, 0, 0),
        ] {
            let shape = Shape::of(path);
            let found = (shape.alternatives, shape.descents, shape.from_root);
            assert_eq!(found, (alternatives, descents, from_root), "{path}");
        }
    }

    #[test]
    fn the_order_follows_from_the_segments() {
        for (path, order) in [
            ("$.*[?@.a == 'x..y']['b.c']", Order::Text),
            ("$..a", Order::Above(1)),
            ("$.a[0]..['x'].*[1:-1]", Order::Above(3)),
            ("$..a..b", Order::Found),
            ("$..a[0,1]", Order::Found),
            ("$.a[::-1]", Order::Found),
        ] {
            assert_eq!(Shape::of(path).order(), order, "{path}");
        }
    }

    #[test]
    fn only_paths_that_find_values_again_are_refused() {
        let wide = [1, 5_000_000];
        let deep = vec![5_000; 100];
        for (path, is_flat_refused, is_deep_refused) in [
            ("$..*", false, false),
            ("$[0]['a']", false, false),
            ("$..*..*", false, true),
            ("$['a','b']", true, false),
            ("$[?@ == $[0]]", false, false),
            ("$[?count($.*) == 1]", true, true),
        ] {
            assert_eq!(Shape::of(path).is_too_high(&wide), is_flat_refused, "{path}");
            assert_eq!(Shape::of(path).is_too_high(&deep), is_deep_refused, "{path}");
        }
        let chain = vec![1; 40];
        assert!(Shape::of(&format!("${}", "[0,0]".repeat(20))).is_too_high(&chain));
        assert!(!Shape::of(&format!("${}", "[0,0]".repeat(10))).is_too_high(&chain));
    }
}
