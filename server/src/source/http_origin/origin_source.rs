//! One core's handle on an HTTP origin, as a [`Source`].
use super::{
    answer_meaning::has_value,
    connection_pool::{Connection, ConnectionPool},
    origin_settings::OriginSettings,
    request_target::request_target,
    response_body::{broken_off, read_body},
    response_freshness::ResponseFreshness,
};
use crate::source::{
    fetch::Fetch, fetch_refusals::timeout_reason, fetch_result::FetchedValue, local_future::LocalFuture,
    source_error::SourceError, source_trait::Source,
};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::Empty;
use hyper::body::Incoming;
use larder_engine::Millis;
use larder_store::clock;
use std::{future::ready, rc::Rc, sync::Arc};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout_at},
};

const READ_ONLY: SourceError = SourceError::ReadOnly("an HTTP API");
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("larder/", env!("CARGO_PKG_VERSION")));

/// One core's handle.
pub(super) struct OriginSource {
    pool: Rc<ConnectionPool>,
    watch: JoinHandle<()>,
}
impl OriginSource {
    pub(super) fn new(settings: Arc<OriginSettings>) -> OriginSource {
        let pool = Rc::new(ConnectionPool::new(settings));
        let watched = pool.clone();
        OriginSource { pool, watch: tokio::task::spawn_local(async move { watched.watch().await }) }
    }
    fn deadline(&self) -> Instant {
        Instant::now() + self.pool.settings.limits.timeout
    }
}
impl Drop for OriginSource {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Source for OriginSource {
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        let settings = &self.pool.settings;
        settings.health.admit(batch, settings.limits.max_in_flight);
        let deadline = self.deadline();
        for fetch in batch.drain(..) {
            let pool = self.pool.clone();
            tokio::task::spawn_local(async move {
                let begun = Instant::now();
                let answer = answer(&pool, fetch.key(), deadline).await;
                let health = &pool.settings.health;
                if let Err(SourceError::Unavailable(reason)) = &answer {
                    health.note_error(reason);
                }
                health.finished(answer.is_err(), begun.elapsed());
                fetch.finish(answer, clock::now());
            });
        }
    }
    fn put<'a>(&'a self, _: &'a [u8], _: &'a [u8], _: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(ready(Err(READ_ONLY)))
    }
    fn delete<'a>(&'a self, _: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(ready(Err(READ_ONLY)))
    }
    fn expire<'a>(&'a self, _: &'a [u8], _: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(ready(Err(READ_ONLY)))
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(async {
            let connection = match self.pool.take_idle().await {
                Some(connection) => connection,
                None => self.pool.connect(self.deadline()).await?,
            };
            self.pool.give_back(connection);
            Ok(())
        })
    }
}

/// The answer to a fetch, by its deadline.
async fn answer(pool: &ConnectionPool, key: &[u8], deadline: Instant) -> Result<Option<FetchedValue>, SourceError> {
    let settings = &pool.settings;
    let target = request_target(&settings.url, key).map_err(|reason| settings.refused(reason))?;
    let answer = timeout_at(deadline, exchange(pool, target, deadline)).await;
    answer.unwrap_or_else(|_| Err(settings.unavailable(timeout_reason(settings.limits.timeout, &settings.limits))))
}

async fn exchange(pool: &ConnectionPool, target: Uri, deadline: Instant) -> Result<Option<FetchedValue>, SourceError> {
    let settings = &pool.settings;
    let asked = clock::now();
    let (connection, response) = send(pool, target, deadline).await?;
    let (head, body) = response.into_parts();
    let value = match has_value(&head, settings) {
        Ok(true) => Some(read_body(body, settings).await?),
        // The body is of no interest. hyper reads what has come of it, and closes the connection if that is not all.
        Ok(false) => None,
        Err(error) => {
            pool.give_back(connection);
            return Err(error);
        }
    };
    pool.give_back(connection);
    Ok(value.map(|value| {
        let expiry = match ResponseFreshness::of(&head.headers, asked) {
            ResponseFreshness::Unstated => None,
            ResponseFreshness::NotKept => Some(asked),
            ResponseFreshness::Until(at) => Some(at),
        };
        FetchedValue { value, expiry }
    }))
}

/// Sends the request on an idle connection; on a new one if there is none, or if it turns out that the origin has closed it.
async fn send(
    pool: &ConnectionPool,
    target: Uri,
    deadline: Instant,
) -> Result<(Connection, Response<Incoming>), SourceError> {
    let settings = &pool.settings;
    let request = || {
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = target.clone();
        let headers = request.headers_mut();
        headers.insert(header::HOST, settings.host.clone());
        headers.insert(header::USER_AGENT, USER_AGENT);
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        request
    };
    if let Some(mut connection) = pool.take_idle().await {
        match connection.send_request(request()).await {
            Ok(response) => return Ok((connection, response)),
            // An answer, though not one of HTTP.
            Err(error) if error.is_parse() => return Err(settings.unavailable(broken_off(&error))),
            Err(_) => {}
        }
    }
    let mut connection = pool.connect(deadline).await?;
    match connection.send_request(request()).await {
        Ok(response) => Ok((connection, response)),
        Err(error) => Err(settings.unavailable(broken_off(&error))),
    }
}
