//! Walks through a store, sent as they go: `/v0/entities` and `/v1/range`. A page is read when the client has taken the one before, so a
//! walk occupies one page however long it takes, keeps nothing open at the store between two, and ends with its client.
use super::{
    group_routes::{number, put_bytes},
    key_routes::decode,
    problem::{Kind, Problem},
    response_body::{Body, Writer},
    router::Call,
};
use crate::{
    read::Group,
    source::{FetchedValue, LocalFuture, LocalStore, Page, Scan, SourceError},
};
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use larder_proto::http::{target, text::Sink};
use std::{
    future::poll_fn,
    ops::Bound::{Excluded, Included, Unbounded},
    rc::Rc,
    task::{Context, Poll, ready},
};

/// Entries of a page.
const PAGE: usize = 256;
/// Bytes of a page, of which the last entry may be longer.
const PAGE_BYTES: usize = 128 * 1024;

/// How entries are worded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wording {
    /// Key, line feed, value: one chunk each.
    Entities,
    /// A JSON object and a line feed.
    Lines,
}

/// A walk that is not at its end.
pub(super) struct Walk {
    group: Rc<Group>,
    wording: Wording,
    /// What is to be read; `None`: nothing more.
    next: Option<Scan>,
    /// Entries to come, at most.
    left: usize,
    page: Option<LocalFuture<'static, Result<Page, SourceError>>>,
}

/// `GET /v0/entities?start=A[&end=B]` and `GET /v1/range?start=&end=&limit=&reverse=`: the entries from `start` up to, and without, `end`.
pub(super) async fn walk(call: &Call<'_>, wording: Wording) -> Result<Response<Body>, Problem> {
    if !call.group.source.as_local().is_some_and(LocalStore::is_ordered) {
        let name = &call.group.name;
        return Err(Problem::of(Kind::NoRange, format!("the source of group `{name}` keeps no keys in order")));
    }
    let bound = |name| match target::parameter(call.query, name).filter(|raw| !raw.is_empty()) {
        None => Ok(None),
        Some(raw) => Ok(Some(Bytes::from(decode(raw, target::decode_query)?.into_owned()))),
    };
    let (start, end) = (bound("start")?, bound("end")?);
    if wording == Wording::Entities && start.is_none() {
        return Err(Problem::of(Kind::BadParameter, "`start` is missing or empty"));
    }
    let (mut limit, mut reverse) = (usize::MAX, false);
    if wording == Wording::Lines {
        limit = match number(call.query, "limit")? {
            Some(0) => return Err(Problem::of(Kind::BadParameter, "`limit` is 0")),
            given => given.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        };
        reverse = match target::parameter(call.query, "reverse") {
            None | Some(b"" | b"false" | b"0") => false,
            Some(b"true" | b"1") => true,
            Some(_) => return Err(Problem::of(Kind::BadParameter, "`reverse` is neither true nor false")),
        };
    }
    let scan = Scan {
        start: start.map_or(Unbounded, Included),
        end: end.map_or(Unbounded, Excluded),
        reverse,
        limit: PAGE,
        max_bytes: PAGE_BYTES,
        keys_only: false,
    };
    let mut walk = Walk { group: call.group.clone(), wording, next: Some(scan), left: limit, page: None };
    // A store that cannot be read says so in the head.
    let first = poll_fn(|cx| walk.poll_page(cx)).await.map_err(|error| Problem::source(&error))?;
    let mut response = Response::new(Body::walking(first, walk));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(match wording {
            Wording::Entities => "application/octet-stream",
            Wording::Lines => "application/x-ndjson",
        }),
    );
    Ok(response)
}

impl Walk {
    /// The next page, as it is sent; `None` at the end. After an error there is no more.
    pub(super) fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Body>, SourceError>> {
        loop {
            if let Some(page) = &mut self.page {
                let page = ready!(page.as_mut().poll(cx));
                self.page = None;
                let sent = self.take(page?);
                if sent.is_some() {
                    return Poll::Ready(Ok(sent));
                }
                // All of it had expired.
                continue;
            }
            let Some(scan) = self.next.clone().filter(|_| self.left > 0) else { return Poll::Ready(Ok(None)) };
            let (group, limit) = (self.group.clone(), self.left.min(PAGE));
            self.page = Some(Box::pin(async move { group.local()?.scan(Scan { limit, ..scan }).await }));
        }
    }

    fn take(&mut self, page: Page) -> Option<Body> {
        self.next = match (page.next, self.next.take()) {
            (Some(last), Some(scan)) if scan.reverse => Some(Scan { end: Excluded(last), ..scan }),
            (Some(last), Some(scan)) => Some(Scan { start: Excluded(last), ..scan }),
            _ => None,
        };
        self.left = self.left.saturating_sub(page.entries.len());
        if page.entries.is_empty() {
            return None;
        }
        Some(match self.wording {
            Wording::Entities => Body::chunks(page.entries.iter().map(|(key, found)| entity(key, found))),
            Wording::Lines => lines(page.entries),
        })
    }
}

fn entity(key: &[u8], found: &FetchedValue) -> Bytes {
    [key, b"\n", &found.value].concat().into()
}

fn lines(entries: Vec<(Bytes, FetchedValue)>) -> Body {
    let mut body = Writer::with_capacity(PAGE_BYTES);
    for (key, found) in entries {
        body.put(b"{\"key\":");
        put_bytes(&mut body, key);
        body.put(b",\"value\":");
        put_bytes(&mut body, found.value);
        body.put(b"}\n");
    }
    body.finish()
}
