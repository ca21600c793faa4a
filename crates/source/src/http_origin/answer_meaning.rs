//! What the status of a response means for the key.
use super::origin_settings::SharedAddress;
use crate::source_error::SourceError;
use http::{HeaderMap, StatusCode, header, response::Parts};
use larder_proto::http::cache_control::members;

/// What a response that is an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The body is the key's value.
    Value,
    /// The key does not exist.
    Absent,
    /// The copy that the request named is still right.
    NotModified,
}

/// What the response to a read says. `conditional`: the request named a copy.
///
/// # Errors
/// `Unavailable` if the origin may answer when it is asked again, else `Refused`.
pub(super) fn of_read(response: &Parts, conditional: bool, address: &SharedAddress) -> Result<Meaning, SourceError> {
    let status = response.status;
    match status {
        StatusCode::OK | StatusCode::NON_AUTHORITATIVE_INFORMATION => Ok(Meaning::Value),
        StatusCode::NOT_FOUND | StatusCode::GONE => Ok(Meaning::Absent),
        StatusCode::NOT_MODIFIED if conditional => Ok(Meaning::NotModified),
        StatusCode::NOT_MODIFIED => {
            Err(address.refused(format_args!("answered {status}, though it was not asked whether")))
        }
        StatusCode::TOO_MANY_REQUESTS => Err(address.unavailable(format_args!("answered {status}"))),
        status if status.is_server_error() => Err(address.unavailable(format_args!("answered {status}"))),
        status if status.is_redirection() => {
            Err(address.refused(format_args!("answered {status}; redirects are not followed")))
        }
        status => Err(address.refused(format_args!("answered {status}"))),
    }
}

/// The codings of a body that is encoded, although Larder asks for `identity`.
pub(super) fn codings(headers: &HeaderMap) -> Option<Box<[u8]>> {
    let lines = headers.get_all(header::CONTENT_ENCODING).iter().flat_map(|line| members(line.as_bytes()));
    let codings = lines.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
    let codings = codings.collect::<Vec<_>>().join(&b", "[..]);
    (!codings.is_empty()).then(|| codings.into())
}

/// Whether the response to a write accepts it; `text` is the beginning of its body.
///
/// # Errors
/// `Unavailable` if the origin says that it did nothing and may do it later, `Refused` if it will
/// not, `Lost` if that is unknown.
pub(super) fn of_write(status: StatusCode, text: &str, address: &SharedAddress) -> Result<(), SourceError> {
    let said = if text.is_empty() { String::new() } else { format!(": {text}") };
    match status {
        status if status.is_success() => Ok(()),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Err(address.unavailable(format_args!("answered {status}{said}")))
        }
        // It may have failed after the change, or it stands before another that made it.
        status if status.is_server_error() => Err(address.lost(format_args!("answered {status}{said}"))),
        status => Err(address.refused(format_args!("answered {status}{said}"))),
    }
}
