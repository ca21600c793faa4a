//! Ranges of a store's keys, sent page by page: `/v0/entities` and `/v1/range`. A page is read when
//! the client has taken the one before. So a range occupies one page however long it takes, keeps
//! nothing open at the store between two pages, and ends with its client.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_body::{BodyWriter, Pages, ResponseBody},
        response_writer::insert_own_type,
    },
    routing::route_request::{RouteRequest, decode_key},
};
use bytes::Bytes;
use http::{HeaderValue, Response};
use larder_core::read::Group;
use larder_proto::http::{target, text::Sink};
use larder_source::{LocalFuture, LocalStore, Page, Scan, SourceError};
use larder_store::StoredValue;
use std::{
    future::poll_fn,
    ops::Bound::{Excluded, Included, Unbounded},
    rc::Rc,
    task::{Context, Poll, ready},
};

const PAGE: usize = 256;
/// Bytes of a page, of which the last entry may be longer.
const PAGE_BYTES: usize = 128 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeFormat {
    /// Key, line feed, value: one chunk each.
    Entities,
    /// A JSON object and a line feed.
    Lines,
}

struct RangeWalk {
    group: Rc<Group>,
    format: RangeFormat,
    /// The range to read; `None`: nothing more.
    next: Option<Scan>,
    /// Entries to come, at most.
    left: usize,
    page: Option<LocalFuture<'static, Result<Page, SourceError>>>,
}

pub(crate) async fn lines(request: &RouteRequest<'_>) -> Answer {
    range(request, RangeFormat::Lines).await
}

pub(crate) async fn entities(request: &RouteRequest<'_>) -> Answer {
    range(request, RangeFormat::Entities).await
}

/// `GET /v0/entities?start=A[&end=B]` and `GET /v1/range?start=&end=&limit=&reverse=`: the entries
/// from `start` up to, and without, `end`.
async fn range(request: &RouteRequest<'_>, format: RangeFormat) -> Answer {
    if !request.group.source.as_local().is_some_and(LocalStore::is_ordered) {
        let name = &request.group.name;
        return Err(Problem::of(ProblemKind::NoRange, format!("the source of group `{name}` keeps no keys in order")));
    }
    let bound = |name| match target::parameter(request.query, name).filter(|raw| !raw.is_empty()) {
        None => Ok(None),
        Some(raw) => Ok(Some(Bytes::from(decode_key(raw, target::decode_query)?.into_owned()))),
    };
    let (start, end) = (bound("start")?, bound("end")?);
    if format == RangeFormat::Entities && start.is_none() {
        return Err(Problem::of(ProblemKind::BadParameter, "`start` is missing or empty"));
    }
    let (mut limit, mut reverse) = (usize::MAX, false);
    if format == RangeFormat::Lines {
        limit = match request.number("limit")? {
            Some(0) => return Err(Problem::of(ProblemKind::BadParameter, "`limit` is 0")),
            given => given.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        };
        reverse = match target::parameter(request.query, "reverse") {
            None | Some(b"" | b"false" | b"0") => false,
            Some(b"true" | b"1") => true,
            Some(_) => return Err(Problem::of(ProblemKind::BadParameter, "`reverse` is neither true nor false")),
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
    let mut pages = RangeWalk { group: request.group.clone(), format, next: Some(scan), left: limit, page: None };
    // A store that cannot be read says so in the head.
    let first = poll_fn(|cx| pages.poll_page(cx)).await.map_err(|error| Problem::source(&error))?;
    let mut response = Response::new(ResponseBody::paged(first, pages));
    let content_type = match format {
        RangeFormat::Entities => "application/octet-stream",
        RangeFormat::Lines => "application/x-ndjson",
    };
    insert_own_type(response.headers_mut(), HeaderValue::from_static(content_type));
    Ok(response)
}

impl Pages for RangeWalk {
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ResponseBody>, SourceError>> {
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
}

impl RangeWalk {
    /// The page as it is sent; `None` if it has no entries. Notes where the next page begins.
    fn take(&mut self, page: Page) -> Option<ResponseBody> {
        self.next = match (page.next, self.next.take()) {
            (Some(last), Some(scan)) if scan.reverse => Some(Scan { end: Excluded(last), ..scan }),
            (Some(last), Some(scan)) => Some(Scan { start: Excluded(last), ..scan }),
            _ => None,
        };
        self.left = self.left.saturating_sub(page.entries.len());
        if page.entries.is_empty() {
            return None;
        }
        Some(match self.format {
            RangeFormat::Entities => ResponseBody::chunks(page.entries.iter().map(|(key, found)| entity(key, found))),
            RangeFormat::Lines => json_lines(page.entries),
        })
    }
}

fn entity(key: &[u8], found: &StoredValue) -> Bytes {
    [key, b"\n", &found.value].concat().into()
}

fn json_lines(entries: Vec<(Bytes, StoredValue)>) -> ResponseBody {
    let mut body = BodyWriter::with_capacity(PAGE_BYTES);
    for (key, found) in entries {
        body.put(b"{\"key\":");
        body.put_json_or_base64(key);
        body.put(b",\"value\":");
        body.put_json_or_base64(found.value);
        body.put(b"}\n");
    }
    body.finish()
}
