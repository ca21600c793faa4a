//! What a reply to one of Larder's own commands means: success, or which error.
use crate::source_error::{SourceError, UNAVAILABLE};
use larder_proto::resp;
use std::sync::Arc;

/// The reply to one of Larder's own commands, unless it is an error.
pub(super) fn accepted(reply: &[u8]) -> Result<&[u8], SourceError> {
    match reply.strip_prefix(b"-") {
        Some(text) => Err(refusal(text)),
        None => Ok(reply),
    }
}

/// Classifies the text of an error reply. Some codes mean that the server cannot answer now. The
/// text of another Larder may mean that the outcome is unknown. All others refuse the command.
pub(super) fn refusal(text: &[u8]) -> SourceError {
    const NOT_NOW: [&str; 6] = ["NOAUTH", "LOADING", "MASTERDOWN", "BUSY", "CLUSTERDOWN", "TRYAGAIN"];
    let text: Arc<str> = String::from_utf8_lossy(text.trim_ascii_end()).into();
    if let Some(reason) = text.strip_prefix("ERR ").and_then(|text| text.strip_prefix(UNAVAILABLE)) {
        return SourceError::Lost(reason.into());
    }
    let code = text.split(' ').next().unwrap_or_default();
    if NOT_NOW.contains(&code) { SourceError::Unavailable(text) } else { SourceError::Refused(text) }
}

/// Whether a reason is an error of the server, not of the connection.
pub(super) fn has_code(reason: &str) -> bool {
    reason.split(' ').next().is_some_and(|code| code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase()))
}

/// Whether an integer reply is positive.
pub(super) fn positive(reply: &[u8]) -> Result<bool, SourceError> {
    match reply.strip_prefix(b":").map(<[u8]>::trim_ascii_end) {
        Some(digits) => Ok(resp::parse_i64(digits).is_some_and(|count| count > 0)),
        None => Err(unexpected()),
    }
}
pub(super) fn unexpected() -> SourceError {
    SourceError::Refused("ERR the source gave an unexpected reply".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_of_the_server_means() {
        for (text, expected) in [
            ("WRONGTYPE no", SourceError::Refused("WRONGTYPE no".into())),
            ("LOADING not yet", SourceError::Unavailable("LOADING not yet".into())),
            // Another Larder's.
            ("ERR source unavailable: gone", SourceError::Lost("gone".into())),
        ] {
            assert_eq!(refusal(text.as_bytes()), expected);
        }
    }
}
