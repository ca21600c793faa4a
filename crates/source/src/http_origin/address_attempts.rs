//! A request is made at the least loaded address, and at others as long as nothing of it was sent.
use super::{
    address_choice::{AddressChoice, Tried},
    connection_pool::ConnectionPool,
    origin_settings::SharedAddress,
    request_deadline::RequestDeadline,
    request_target::request_target,
};
use crate::source_error::SourceError;
use http::Uri;
use larder_engine::Millis;
use larder_store::clock;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout_at;

/// Why a request got no answer.
pub(super) enum Failure {
    /// Nothing was sent: another address may answer.
    NotConnected(SourceError),
    /// The answer, or what stands for it.
    Final(SourceError),
}
impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Failure {
        Failure::Final(error)
    }
}

/// The answer of `exchange`, with the URL of the key, at the first address to which it can connect.
/// `no_answer`: the error if the deadline passes during an exchange.
///
/// # Errors
/// That of the exchange, or of the last attempt to connect; `Throttled` if the origin asked not to
/// be asked now.
pub(super) async fn at_some_address<T>(
    origin: &AddressChoice,
    key: &[u8],
    deadline: RequestDeadline,
    no_answer: impl Fn(&SharedAddress, Arc<str>) -> SourceError,
    exchange: impl AsyncFn(&ConnectionPool, &Uri) -> Result<T, Failure>,
) -> Result<T, SourceError> {
    let settings = &origin.settings;
    let asked = clock::now();
    if let Some(until) = settings.waiting_keys.until(key, asked) {
        return Err(resting(&settings.origin, until, asked));
    }
    let target = request_target(&settings.url, key).map_err(|reason| settings.refused(reason))?;
    let mut tried = Tried::default();
    let mut failed = None;
    loop {
        let Some(pool) = origin.choose(&mut tried, asked) else {
            let resting = || resting(&settings.origin, origin.rest_of_all(asked).unwrap_or(asked), asked);
            return Err(failed.unwrap_or_else(resting));
        };
        let _under_way = pool.begin();
        match timeout_at(deadline.at, exchange(pool, &target)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(Failure::Final(error))) => return Err(error),
            Ok(Err(Failure::NotConnected(error))) => failed = Some(error),
            Err(_) => {
                let reason = format!("timed out after {:?} (source-timeout)", deadline.limit);
                return Err(no_answer(pool.address(), reason.into()));
            }
        }
    }
}

/// The error of a request that is not sent because the origin asked for a rest.
fn resting(origin: &str, until: Millis, now: Millis) -> SourceError {
    let wait = Duration::from_millis(until.saturating_sub(now));
    SourceError::Throttled(format!("{origin}: asked not to be asked again for {wait:?} (Retry-After)").into(), wait)
}
