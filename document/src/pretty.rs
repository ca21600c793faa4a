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

/// Appends a compact text in this layout. `depth`: how many containers are around it in the output.
/// `enough`: bytes of output from where on no more is written, since the caller refuses it.
pub fn write_pretty(text: &[u8], layout: Layout<'_>, mut depth: usize, enough: usize, out: &mut Vec<u8>) {
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.extend_from_slice(layout.newline);
        (0..depth).for_each(|_| out.extend_from_slice(layout.indent));
    };
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if out.len() > enough {
            return;
        }
        match byte {
            b'"' => {
                let end = crate::scan::value_end_of_string(text, at);
                out.extend_from_slice(&text[at..end]);
                at = end;
                continue;
            }
            b'{' | b'[' => {
                out.push(byte);
                if matches!(text.get(at + 1), Some(b'}' | b']')) {
                    out.push(text[at + 1]);
                    at += 2;
                    continue;
                }
                depth += 1;
                line(out, depth);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(out, depth);
            }
            b':' => {
                out.push(byte);
                out.extend_from_slice(layout.space);
            }
            _ => out.push(byte),
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_gets_its_layout() {
        let layout = Layout { indent: b"\t", newline: b"\n", space: b" " };
        let mut out = Vec::new();
        write_pretty(br#"{"a":[1,{}],"b,:":"x"}"#, layout, 0, usize::MAX, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "{\n\t\"a\": [\n\t\t1,\n\t\t{}\n\t],\n\t\"b,:\": \"x\"\n}");
        let mut same = Vec::new();
        write_pretty(br#"[{"a":[]}]"#, Layout::default(), 0, usize::MAX, &mut same);
        assert_eq!(same, br#"[{"a":[]}]"#);
    }
}
