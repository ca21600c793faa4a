//! `GET {item-prefix}/keys`: all keys that match a mask, in one answer.
use super::{
    item_error::{ErrorCode, ItemError},
    item_request, json_text,
    key_mask::KeyMask,
};
use crate::{
    messages::{
        problem_json::{Answer, Problem},
        response_body::{BodyWriter, ResponseBody},
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use bytes::Bytes;
use larder_base::buffers::{BufferCharge, BufferKind, Buffers};
use larder_proto::http::text::Sink;
use larder_source::Scan;
use larder_store::clock;
use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    ops::Bound,
    sync::Arc,
};

/// Keys that are looked at before other requests get their turn; of a tier, under one shard's lock.
const PAGE: usize = 256;
/// Bytes of a page of a store.
const PAGE_BYTES: usize = 1 << 20;
/// Bytes of text between two updates of the buffer account.
const STEP: usize = 256 * 1024;
/// Bytes that the set of listed keys takes for each.
const SEEN: usize = 16;
/// Work on comparing after which other requests get their turn: some milliseconds.
const TURN: usize = 1 << 25;

const TOO_SLOW: &str = "bad key mask: it takes too long to compare it with one of the keys";

/// `{"mask":…,"keys":[…]}`: the keys of a store on this machine if that is the source, else those
/// of the memory tier. A key that is there from the first page to the last is listed once, whatever
/// is written meanwhile.
pub(crate) async fn list_item_keys(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    Ok(list(request, &body).await.map_or_else(ItemError::into_response, response_writer::json))
}

async fn list(request: &RouteRequest<'_>, body: &[u8]) -> Result<ResponseBody, ItemError> {
    let mask = item_request::mask_of(body, request.query)?;
    let matcher = match &*mask {
        "" => None,
        mask => Some(KeyMask::parse(mask).map_err(|_| ItemError::from(ErrorCode::BadMask))?),
    };
    let mask = if mask.is_empty() { "*" } else { &*mask };
    let mut listed = ListedKeys::new(mask, matcher, &request.worker.app.buffers);
    match request.group.source.as_local() {
        Some(store) => {
            let mut start = Bound::Unbounded;
            loop {
                let scan = Scan {
                    start,
                    end: Bound::Unbounded,
                    reverse: false,
                    limit: PAGE,
                    max_bytes: PAGE_BYTES,
                    keys_only: true,
                };
                let page = store.scan(scan).await.map_err(|error| ItemError::read_failed(&Problem::source(&error)))?;
                page.entries.iter().filter(|(key, _)| request.lists(key)).for_each(|(key, _)| listed.add(key));
                listed.catch_up().await?;
                match page.next {
                    Some(last) => start = Bound::Excluded(last),
                    None => break,
                }
            }
        }
        None => {
            let mut cursor = 0;
            loop {
                let mut tier = request.group.cache.tier();
                cursor = tier.scan(cursor, PAGE, clock::now(), |entry| {
                    if request.lists(entry.key) {
                        listed.add(entry.key);
                    }
                });
                listed.catch_up().await?;
                if cursor == 0 {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
    }
    Ok(listed.finish())
}

struct ListedKeys<'a> {
    matcher: Option<KeyMask>,
    /// On comparing, in this turn.
    work: usize,
    /// Keys of a page that are compared in later turns.
    pending: Vec<Box<[u8]>>,
    pending_bytes: usize,
    is_too_slow: bool,
    body: BodyWriter,
    is_first: bool,
    /// Hashes: a scan may visit a key twice.
    seen: HashSet<u64>,
    hasher: RandomState,
    charge: BufferCharge,
    charged: usize,
    fits: bool,
    buffers: &'a Arc<Buffers>,
}

impl<'a> ListedKeys<'a> {
    fn new(mask: &str, matcher: Option<KeyMask>, buffers: &'a Arc<Buffers>) -> ListedKeys<'a> {
        let mut body = BodyWriter::with_capacity(1024);
        body.put(b"{\"mask\":");
        json_text::put_string(&mut body, mask.as_bytes());
        body.put(b",\"keys\":[");
        ListedKeys {
            matcher,
            work: 0,
            pending: Vec::new(),
            pending_bytes: 0,
            is_too_slow: false,
            body,
            is_first: true,
            seen: HashSet::new(),
            hasher: RandomState::new(),
            charge: buffers.charge(BufferKind::HttpOutput),
            charged: 0,
            fits: true,
            buffers,
        }
    }

    fn add(&mut self, key: &[u8]) {
        if !self.fits || self.is_too_slow {
            return;
        }
        if self.work > TURN {
            self.pending.push(key.into());
            self.pending_bytes += key.len() + SEEN;
            return self.charge();
        }
        let text = String::from_utf8_lossy(key);
        let compared = self.matcher.as_ref().map_or(Some(true), |mask| mask.matches(&text, &mut self.work));
        self.is_too_slow = compared.is_none();
        if compared != Some(true) || !self.seen.insert(self.hasher.hash_one(key)) {
            return;
        }
        if !std::mem::take(&mut self.is_first) {
            self.body.put(b",");
        }
        json_text::put_string(&mut self.body, key);
        self.charge();
    }

    fn charge(&mut self) {
        let held = self.body.text() + SEEN * self.seen.len() + self.pending_bytes;
        if held > self.charged {
            self.charged = held + STEP;
            self.fits = self.charge.try_resize(self.charged);
        }
    }

    /// Compares what the page left over, in turns.
    async fn catch_up(&mut self) -> Result<(), ItemError> {
        for key in std::mem::take(&mut self.pending) {
            if self.work > TURN {
                self.work = 0;
                tokio::task::yield_now().await;
            }
            self.add(&key);
        }
        self.pending_bytes = 0;
        self.work = 0;
        match () {
            () if self.is_too_slow => Err(ItemError::of(ErrorCode::BadMask, TOO_SLOW)),
            () if self.fits => Ok(()),
            () => Err(full(self.buffers)),
        }
    }

    fn finish(mut self) -> ResponseBody {
        self.body.put(b"]}\n");
        self.charge.settle(self.body.text());
        self.body.finish_charged(self.charge)
    }
}

/// The answer does not fit into what all buffers together may hold.
pub(super) fn full(buffers: &Buffers) -> ItemError {
    let problem = Problem::buffers_full("the answer does not fit", buffers.limit());
    ItemError::read_failed(&problem)
}
