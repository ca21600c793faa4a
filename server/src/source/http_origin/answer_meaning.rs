//! What the status of a response means for the key.
use super::origin_settings::SharedAddress;
use crate::source::source_error::SourceError;
use http::{StatusCode, header, response::Parts};

/// Whether the body is the key's value.
///
/// # Errors
/// `Unavailable` if the origin may answer when it is asked again, else `Refused`.
pub(super) fn has_value(response: &Parts, address: &SharedAddress) -> Result<bool, SourceError> {
    let status = response.status;
    match status {
        StatusCode::OK | StatusCode::NON_AUTHORITATIVE_INFORMATION => {
            // Clients of a key learn nothing of an encoding: they would take the encoded bytes for the value.
            match response.headers.get(header::CONTENT_ENCODING) {
                Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
                    let encoding = encoding.as_bytes().escape_ascii();
                    Err(address.refused(format_args!("answered with Content-Encoding `{encoding}`, not `identity`")))
                }
                _ => Ok(true),
            }
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => Ok(false),
        StatusCode::TOO_MANY_REQUESTS => Err(address.unavailable(format_args!("answered {status}"))),
        status if status.is_server_error() => Err(address.unavailable(format_args!("answered {status}"))),
        status if status.is_redirection() => {
            Err(address.refused(format_args!("answered {status}; redirects are not followed")))
        }
        status => Err(address.refused(format_args!("answered {status}"))),
    }
}
