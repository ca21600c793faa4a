//! SCAN, KEYS, DBSIZE, RANDOMKEY, FLUSHDB and FLUSHALL on a local store. The memory tier has only a
//! part of its keys.
use super::{
    keys::flush_options,
    scan::{Walk, WalkPage},
};
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow},
};
use bytes::Bytes;
use larder_core::read::KeyGuard;
use larder_proto::glob::{self, Pace};
use larder_source::{LocalStore, Page, Scan, SourceError};
use larder_store::ValueKind;
use std::{
    ops::Bound::{self, Excluded, Included, Unbounded},
    rc::Rc,
};

/// Maximum keys of one page.
const STRIDE: usize = 4096;
/// Maximum bytes of keys of one page.
const PAGE: usize = 1 << 20;
/// Maximum length of the prefix that RANDOMKEY chooses byte by byte.
const DEPTH: usize = 64;

const CURSOR_LOST: CommandError = CommandError::Static(
    "ERR invalid cursor: the server has restarted or too many other scans have started since; start again with 0",
);

pub(crate) async fn dbsize(call: &mut CommandContext<'_>) -> Done {
    let count = call.group().local()?.count().await?;
    call.integer(i64::try_from(count).unwrap_or(i64::MAX))
}
pub(crate) async fn randomkey(call: &mut CommandContext<'_>) -> Done {
    match random(call.group().local()?).await? {
        Some(key) => call.reply.bulk(&key),
        None => call.reply.null(),
    }
    Ok(Flow::Done)
}
/// FLUSHDB, FLUSHALL. The caller holds all key locks.
pub(crate) async fn flush(call: &mut CommandContext<'_>, held: &Rc<KeyGuard>) -> Done {
    flush_options(call)?;
    call.group().clear_source(held).await?;
    call.ok()
}

/// A page of the keys of a range, in order.
pub(super) async fn page(
    store: &dyn LocalStore,
    start: Bound<Bytes>,
    end: Bound<Bytes>,
    limit: usize,
) -> Result<Page, SourceError> {
    store.scan(Scan { start, end, reverse: false, limit, max_bytes: PAGE, keys_only: true }).await
}

/// Lists the keys of a page that match. Other clients have their turns meanwhile.
async fn list(page: &Page, pace: &mut Option<Pace<'_>>, is_of_type: impl Fn(ValueKind) -> bool, found: &mut WalkPage) {
    for (key, entry) in &page.entries {
        if is_of_type(entry.kind) && pace.as_mut().is_none_or(|pace| pace.matches(key)) {
            found.push(key);
        }
        if pace.as_mut().is_some_and(Pace::is_turn_over) {
            tokio::task::yield_now().await;
        }
    }
}

pub(crate) async fn scan(call: &mut CommandContext<'_>) -> Done {
    let store = call.group().local()?;
    let walk = Walk::parse(call)?;
    let cursors = &call.worker.app.tables.cursors;
    let (mut start, end) = glob::range(walk.pattern);
    if walk.cursor != 0 {
        start = Excluded(cursors.place(walk.cursor).ok_or(CURSOR_LOST)?);
    }
    let page = page(store, start, end, walk.count).await?;
    let mut found = WalkPage::of(call);
    list(&page, &mut walk.pattern.map(Pace::new), |kind| walk.is_of_type(kind), &mut found).await;
    call.reply.array(2);
    call.reply.bulk_unsigned(page.next.map_or(0, |last| cursors.keep(last, walk.cursor)));
    found.reply(call);
    Ok(Flow::Done)
}

pub(crate) async fn keys(call: &mut CommandContext<'_>) -> Done {
    let store = call.group().local()?;
    let pattern = call.arg(1);
    let (mut start, end) = glob::range(Some(pattern));
    let (mut pace, mut found) = (Some(Pace::new(pattern)), WalkPage::of(call));
    loop {
        let page = page(store, start, end.clone(), STRIDE).await?;
        list(&page, &mut pace, |_| true, &mut found).await;
        match page.next {
            Some(last) if !found.is_refused() => start = Excluded(last),
            _ => break,
        }
    }
    found.reply(call);
    Ok(Flow::Done)
}

/// A random key. Its bytes are chosen one by one, each between the bytes of the first and the last
/// key with the prefix so far. Keys with few neighbours are chosen more often than keys with many.
async fn random(store: &dyn LocalStore) -> Result<Option<Bytes>, SourceError> {
    if let Some(picked) = store.pick(fastrand::u64(..)) {
        return picked.await;
    }
    let mut prefix = Vec::new();
    loop {
        let (start, end) = (Included(Bytes::copy_from_slice(&prefix)), glob::behind(&prefix));
        let Some(mut first) = edge(store, start, end.clone(), false).await? else {
            // The last key with this prefix was deleted meanwhile.
            return edge(store, Unbounded, Unbounded, false).await;
        };
        let last = edge(store, Included(first.clone()), end.clone(), true).await?.unwrap_or_else(|| first.clone());
        let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
        if first == last || common >= DEPTH || common == first.len() && fastrand::bool() {
            return Ok(Some(first));
        }
        if common == first.len() {
            // All other keys are longer.
            first = edge(store, Excluded(first), end, false).await?.unwrap_or_else(|| last.clone());
        }
        let (Some(&low), Some(&high)) = (first.get(common), last.get(common)) else { return Ok(Some(first)) };
        let chosen = fastrand::u8(low..=high.max(low));
        prefix = [&first[..common], &[chosen]].concat();
        // If no key begins with these bytes, the next key is taken. There is one.
        let start = Included(Bytes::copy_from_slice(&prefix));
        if let Some(key) = edge(store, start, Unbounded, false).await? {
            prefix.clear();
            prefix.extend_from_slice(&key[..key.len().min(common + 1)]);
        }
    }
}
/// The first or the last key of a range.
async fn edge(
    store: &dyn LocalStore,
    mut start: Bound<Bytes>,
    mut end: Bound<Bytes>,
    reverse: bool,
) -> Result<Option<Bytes>, SourceError> {
    loop {
        let scan = Scan { start, end, reverse, limit: 1, max_bytes: PAGE, keys_only: true };
        let page = store.scan(scan.clone()).await?;
        if let Some((key, _)) = page.entries.into_iter().next() {
            return Ok(Some(key));
        }
        // The keys seen so far have expired.
        (start, end) = match page.next {
            None => return Ok(None),
            Some(last) if reverse => (scan.start, Excluded(last)),
            Some(last) => (Excluded(last), scan.end),
        };
    }
}
