//! The ids of a traced request, and W3C's `traceparent`
//! (<https://www.w3.org/TR/trace-context/#traceparent-header>).

/// The ids of a traced request and of the fetch that it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanIds {
    pub trace: [u8; 16],
    /// The span of the client, if it sent one.
    pub parent: Option<[u8; 8]>,
    /// The span of the request.
    pub request: [u8; 8],
    /// The span of its fetch.
    pub fetch: [u8; 8],
}

impl SpanIds {
    /// The ids of a new trace.
    pub fn of_root() -> SpanIds {
        SpanIds::new(fastrand::u128(1..).to_be_bytes(), None)
    }

    /// The ids below a `traceparent`, and whether its sender samples the trace. `None`: it is not
    /// valid.
    pub fn below(traceparent: &[u8]) -> Option<(SpanIds, bool)> {
        let text = traceparent.trim_ascii();
        // Later versions may have more fields behind these.
        let (version, rest) = (text.get(..2)?, text.get(55..)?);
        let is_known = version == b"00" && rest.is_empty();
        let is_later = version != b"00" && version != b"ff" && (rest.is_empty() || rest[0] == b'-');
        if !(is_known || is_later) || [2, 35, 52].iter().any(|at| text[*at] != b'-') {
            return None;
        }
        let [_version] = hex(version)?;
        let (trace, parent, [flags]) = (hex(&text[3..35])?, hex(&text[36..52])?, hex(&text[53..55])?);
        (trace != [0; 16] && parent != [0; 8]).then(|| (SpanIds::new(trace, Some(parent)), flags & 1 == 1))
    }

    fn new(trace: [u8; 16], parent: Option<[u8; 8]>) -> SpanIds {
        let id = || fastrand::u64(1..).to_be_bytes();
        SpanIds { trace, parent, request: id(), fetch: id() }
    }

    /// The `traceparent` of what is asked for the sake of the fetch.
    pub fn traceparent(&self) -> String {
        let (trace, fetch) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.fetch));
        format!("00-{trace:032x}-{fetch:016x}-01")
    }
}

/// Lower-case digits, like the standard wants them.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_sent_on_has_the_trace_and_the_fetch() {
        let (ids, is_sampled) = SpanIds::below(VALID.as_bytes()).expect("valid");
        assert!(is_sampled);
        let sent = ids.traceparent();
        let (next, is_sampled) = SpanIds::below(sent.as_bytes()).expect("valid");
        assert_eq!((next.trace, next.parent, is_sampled), (ids.trace, Some(ids.fetch), true));
        assert!(ids.request != ids.fetch && sent.starts_with(&VALID[..36]));
        assert_ne!(SpanIds::of_root().trace, SpanIds::of_root().trace);
    }

    #[test]
    fn other_texts_are_no_parents() {
        let cut = &VALID[..54];
        let long = format!("{VALID}-1");
        for wrong in [
            "",
            "00",
            cut,
            &long,
            &VALID.to_uppercase(),
            &VALID.replace("00-", "ff-"),
            &VALID.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &VALID.replace("b7ad6b7169203331", &"0".repeat(16)),
            &VALID.replace("-01", "-0g"),
            &VALID.replace("-b7", "+b7"),
        ] {
            assert_eq!(SpanIds::below(wrong.as_bytes()), None, "{wrong}");
        }
        let later = long.replace("00-", "01-");
        assert!(SpanIds::below(later.as_bytes()).is_some());
        assert!(SpanIds::below(VALID.replace("-01", "-02").as_bytes()).is_some_and(|(_, is_sampled)| !is_sampled));
    }
}
