//! Large commands: checks that the server accepts them. Otherwise it would close the connection in
//! the middle of one, and its error reply might be lost.
use super::connection::UpstreamConnection;
use crate::{source_error::SourceError, source_limits::LARGE};
use larder_proto::resp::{View, encode, parse_u64, view};

/// The server's limit on one argument.
const LIMIT: &[u8] = b"proto-max-bulk-len";

/// Asks the server for its limit if an argument of `commands` may exceed it. If the server does not
/// tell, the command is sent anyway.
///
/// # Errors
/// The argument is too long.
pub(super) async fn check(connection: &UpstreamConnection, commands: &[u8]) -> Result<(), SourceError> {
    let longest = longest(commands);
    if longest <= LARGE {
        return Ok(());
    }
    let replies = connection.relay(encode(&[b"CONFIG", b"GET", LIMIT]).into(), 1).await?;
    match limit(&replies[0]) {
        Some(limit) if longest as u64 > limit => Err(SourceError::Refused(
            format!(
                "ERR an argument of {longest} bytes is longer than the source takes: {limit} (its proto-max-bulk-len)"
            )
            .into(),
        )),
        _ => Ok(()),
    }
}

/// Name and value, in an array or a map.
fn limit(reply: &[u8]) -> Option<u64> {
    let (View::Array(mut parts) | View::Map(mut parts)) = view(reply).ok()? else { return None };
    match (parts.next(), parts.next()) {
        (Some(View::Bulk(LIMIT)), Some(View::Bulk(value))) => parse_u64(value),
        _ => None,
    }
}

/// Bytes of the longest argument of encoded commands.
fn longest(mut commands: &[u8]) -> usize {
    let mut longest = 0;
    while let Some(end) = commands.iter().position(|&byte| byte == b'\n') {
        let (line, rest) = commands.split_at(end + 1);
        let len = line.strip_prefix(b"$").and_then(|text| parse_u64(text.trim_ascii_end()));
        // An array's head has no bytes to skip.
        let skip = len.map_or(0, |len| usize::try_from(len).unwrap_or(usize::MAX).saturating_add(2));
        longest = longest.max(skip.saturating_sub(2));
        commands = rest.get(skip..).unwrap_or(&[]);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_argument() {
        let two = [encode(&[b"SET", b"k", b"$1000\r\n"]), encode(&[b"GET", b"a\nlonger one"])].concat();
        assert_eq!(longest(&two), 12);
        assert_eq!(longest(&encode(&[b"SET", b"k", &[b'\n'; 5000]])), 5000);
        assert_eq!((longest(b""), longest(b"*1\r\n$18446744073709551615\r\n")), (0, usize::MAX - 2));
    }

    #[test]
    fn what_the_server_says() {
        let name = "$18\r\nproto-max-bulk-len\r\n";
        for (reply, expected) in [
            (format!("*2\r\n{name}$7\r\n1048576\r\n"), Some(1 << 20)),
            (format!("%1\r\n{name}$9\r\n536870912\r\n"), Some(512 << 20)),
            ("*0\r\n".to_owned(), None),
            ("-NOPERM no\r\n".to_owned(), None),
        ] {
            assert_eq!(limit(reply.as_bytes()), expected, "{reply}");
        }
    }
}
