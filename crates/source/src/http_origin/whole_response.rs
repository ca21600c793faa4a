//! A response that lies in one piece in what one read of the socket gave: most small ones do.
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, response::Parts};

/// Header fields of such a response, at most.
const MOST_FIELDS: usize = 32;

/// The head and the body of the response that is all of `input`, if it is so plain that there is
/// nothing to decide: HTTP/1.1, its length stated once, no encoding of the transfer, and the
/// connection stays. `None`: hyper has to look at it.
pub(super) fn whole_response(input: &Bytes) -> Option<(Parts, &[u8])> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let Ok(httparse::Status::Complete(head)) = response.parse(input) else { return None };
    let (Some(1), Some(code)) = (response.version, response.code) else { return None };
    let mut parts = Response::new(()).into_parts().0;
    parts.status = StatusCode::from_u16(code).ok()?;
    let mut length = None;
    parts.headers = HeaderMap::with_capacity(response.headers.len());
    for field in response.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        match name {
            header::CONTENT_LENGTH if length.is_some() => return None,
            header::CONTENT_LENGTH => length = Some(decimal(field.value)?),
            header::TRANSFER_ENCODING | header::UPGRADE | header::TRAILER => return None,
            header::CONNECTION if !field.value.eq_ignore_ascii_case(b"keep-alive") => return None,
            header::CONNECTION => {}
            name => {
                // All of them are one allocation.
                let value = HeaderValue::from_maybe_shared(input.slice_ref(field.value)).ok()?;
                parts.headers.append(name, value);
            }
        }
    }
    let body = &input[head..];
    let is_all = match parts.status {
        status if status.is_informational() || status == StatusCode::NO_CONTENT => false,
        // Its length is that of what was not sent.
        StatusCode::NOT_MODIFIED => body.is_empty(),
        _ => length == Some(body.len()),
    };
    is_all.then_some((parts, body))
}

/// Digits and nothing else. What is longer than a response in one piece can be is no matter here.
fn decimal(text: &[u8]) -> Option<usize> {
    let is_number = (1..=9).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| text.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_plain_and_whole() {
        let read = |text: &str| {
            whole_response(&Bytes::copy_from_slice(text.as_bytes())).map(|(head, body)| {
                (head.status.as_u16(), head.headers.len(), String::from_utf8_lossy(body).into_owned())
            })
        };
        let ok = "HTTP/1.1 200 OK\r\n";
        for (text, expected) in [
            (
                format!("{ok}content-length: 5\r\nServer: s\r\nConnection: Keep-Alive\r\n\r\nvalue"),
                Some((200, 1, "value")),
            ),
            (format!("{ok}content-length: 0\r\n\r\n"), Some((200, 0, ""))),
            ("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno".into(), Some((404, 0, "no"))),
            ("HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\netag: a\r\n\r\n".into(), Some((304, 1, ""))),
            ("HTTP/1.1 304 Not Modified\r\netag: a\r\n\r\n".into(), Some((304, 1, ""))),
        ] {
            assert_eq!(read(&text), expected.map(|(status, fields, body)| (status, fields, body.to_owned())), "{text}");
        }
    }

    #[test]
    fn all_else_is_for_hyper() {
        let ok = "HTTP/1.1 200 OK\r\n";
        for text in [
            // A part, or more than the length says.
            "HTTP/1.1 200 OK\r\ncontent-le".to_owned(),
            format!("{ok}content-length: 5\r\n\r\nval"),
            format!("{ok}content-length: 5\r\n\r\nvaluevalue"),
            "HTTP/1.1 304 Not Modified\r\n\r\nvalue".into(),
            // A length that is not said, not clear, or not a number.
            format!("{ok}\r\n"),
            format!("{ok}content-length: 1\r\ncontent-length: 1\r\n\r\na"),
            format!("{ok}content-length: +1\r\n\r\na"),
            format!("{ok}content-length: 1, 1\r\n\r\na"),
            format!("{ok}content-length: \r\n\r\n"),
            format!("{ok}content-length: 18446744073709551617\r\n\r\na"),
            format!("{ok}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\na"),
            // The connection does not stay, or is no longer one of HTTP.
            format!("{ok}content-length: 1\r\nconnection: close\r\n\r\na"),
            format!("{ok}content-length: 1\r\nconnection: keep-alive, close\r\n\r\na"),
            format!("{ok}content-length: 1\r\nupgrade: h2c\r\n\r\na"),
            "HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na".into(),
            // Not the response.
            "HTTP/1.1 103 Early Hints\r\ncontent-length: 0\r\n\r\n".into(),
            "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n".into(),
            "SSH-2.0-OpenSSH\r\n\r\n".into(),
            format!("{ok}{}content-length: 1\r\n\r\na", "x: y\r\n".repeat(MOST_FIELDS)),
        ] {
            assert!(whole_response(&Bytes::copy_from_slice(text.as_bytes())).is_none(), "{text}");
        }
    }
}
