//! A compact text with indentation, as a client asks for it.

/// What stands where a compact text has nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layout<'l> {
    /// Before each element and member, once for each container around it.
    pub indent: &'l [u8],
    /// At the ends of lines.
    pub newline: &'l [u8],
    /// After colons.
    pub space: &'l [u8],
}

impl Layout<'_> {
    /// Whether the text stays as it is.
    pub fn is_compact(&self) -> bool {
        *self == Layout::default()
    }
}

/// Passes a compact text in this layout to `put`, in parts and in order, until it returns false. A
/// caller that must know the length first counts the parts.
pub fn write_pretty(text: &[u8], layout: Layout<'_>, mut put: impl FnMut(&[u8]) -> bool) {
    let (mut at, mut depth) = (0_usize, 0_usize);
    while let Some(&byte) = text.get(at) {
        let begin = at;
        at += 1;
        let is_line = match byte {
            b'"' => {
                at = crate::scan::value_end_of_string(text, begin);
                false
            }
            b'{' | b'[' if matches!(text.get(at), Some(b'}' | b']')) => {
                at += 1;
                false
            }
            b'{' | b'[' => {
                depth += 1;
                true
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !put_line(layout, depth, &mut put) {
                    return;
                }
                false
            }
            b',' => true,
            b':' => false,
            _ => {
                // A number, or a word.
                let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']');
                at = text[at..].iter().position(is_end).map_or(text.len(), |end| at + end);
                false
            }
        };
        let more = put(&text[begin..at])
            && (byte != b':' || put(layout.space))
            && (!is_line || put_line(layout, depth, &mut put));
        if !more {
            return;
        }
    }
}

fn put_line(layout: Layout<'_>, depth: usize, put: &mut impl FnMut(&[u8]) -> bool) -> bool {
    put(layout.newline) && (0..depth).all(|_| put(layout.indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_gets_its_layout() {
        let layout = Layout { indent: b"\t", newline: b"\n", space: b" " };
        let pretty = |text: &[u8], layout, most| {
            let mut out = Vec::new();
            write_pretty(text, layout, |part| {
                out.extend_from_slice(part);
                out.len() < most
            });
            String::from_utf8(out).expect("it is text")
        };
        let text = br#"{"a":[-1.5,{},true],"b,:":"x"}"#;
        let expected = "{\n\t\"a\": [\n\t\t-1.5,\n\t\t{},\n\t\ttrue\n\t],\n\t\"b,:\": \"x\"\n}";
        assert_eq!(pretty(text, layout, usize::MAX), expected);
        assert_eq!(pretty(text, layout, 5), expected[..6]);
        assert_eq!(pretty(br#"[{"a":[]}]"#, Layout::default(), usize::MAX), r#"[{"a":[]}]"#);
        assert_eq!(pretty(b"12", layout, usize::MAX), "12");
    }
}
