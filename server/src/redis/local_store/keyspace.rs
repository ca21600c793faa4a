//! SCAN, KEYS, DBSIZE, RANDOMKEY, FLUSHDB and FLUSHALL on the store itself: the memory tier has only a part of it.
use super::{CommandContext, KeyGuard};
use crate::{
    redis::{
        command_error::{Answer, CommandError},
        commands::{
            keys::flush_options,
            scan::{Walk, WalkPage},
        },
    },
    source::{LocalStore, Page, Scan, SourceError},
};
use bytes::Bytes;
use larder_proto::glob;
use std::{
    ops::Bound::{self, Excluded, Included, Unbounded},
    rc::Rc,
};

/// Keys read at a time by what reads them all.
const STRIDE: usize = 4096;
/// Bytes of keys read at a time.
const PAGE: usize = 1 << 20;
/// Longest part of a key that RANDOMKEY chooses by bytes.
const DEPTH: usize = 64;

const CURSOR_LOST: CommandError = CommandError::Said(
    "ERR invalid cursor: the server has restarted or too many other walks have begun since; begin anew with 0",
);

/// Runs one of them; `held` are all keys, for what deletes them.
pub(super) async fn run(call: &mut CommandContext<'_>, held: Option<&Rc<KeyGuard>>) -> Answer {
    let store = call.group().local()?;
    match (call.command.name, held) {
        ("scan", _) => scan(call, store).await,
        ("keys", _) => keys(call, store).await,
        ("dbsize", _) => {
            let count = store.count().await?;
            call.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
            Ok(())
        }
        ("randomkey", _) => {
            match random(store).await? {
                Some(key) => call.reply.bulk(&key),
                None => call.reply.null(),
            }
            Ok(())
        }
        ("flushall" | "flushdb", Some(held)) => {
            flush_options(call)?;
            call.group().clear_source(held).await?;
            call.reply.ok();
            Ok(())
        }
        (name, _) => Err(CommandError::Told(format!("ERR {name} is not available with this source").into_bytes())),
    }
}

/// Keys of a range, in order.
async fn page(
    store: &dyn LocalStore,
    start: Bound<Bytes>,
    end: Bound<Bytes>,
    limit: usize,
) -> Result<Page, SourceError> {
    store.scan(Scan { start, end, reverse: false, limit, max_bytes: PAGE, keys_only: true }).await
}

async fn scan(call: &mut CommandContext<'_>, store: &dyn LocalStore) -> Answer {
    let walk = Walk::parse(call)?;
    let cursors = &call.worker.app.cursors;
    let (mut start, end) = glob::range(walk.pattern);
    if walk.cursor != 0 {
        start = Excluded(cursors.place(walk.cursor).ok_or(CURSOR_LOST)?);
    }
    let page = page(store, start, end, walk.count).await?;
    let mut found = WalkPage::default();
    page.entries.iter().filter(|(key, _)| walk.takes(key)).for_each(|(key, _)| found.push(key));
    call.reply.array(2);
    call.reply.bulk_unsigned(page.next.map_or(0, |last| cursors.keep(last, walk.cursor)));
    found.reply(call);
    Ok(())
}

async fn keys(call: &mut CommandContext<'_>, store: &dyn LocalStore) -> Answer {
    let pattern = call.arg(1);
    let (mut start, end) = glob::range(Some(pattern));
    let mut found = WalkPage::default();
    loop {
        let page = page(store, start, end.clone(), STRIDE).await?;
        let matching = page.entries.iter().filter(|(key, _)| glob::matches(pattern, key, false));
        matching.for_each(|(key, _)| found.push(key));
        match page.next {
            Some(last) => start = Excluded(last),
            None => break,
        }
    }
    found.reply(call);
    Ok(())
}

/// A key at random: byte by byte, each from those that lie between the first and the last key with the bytes chosen so far. Keys with few
/// others beside them come oftener than those in a crowd.
async fn random(store: &dyn LocalStore) -> Result<Option<Bytes>, SourceError> {
    if let Some(picked) = store.pick(fastrand::u64(..)) {
        return picked.await;
    }
    let mut prefix = Vec::new();
    loop {
        let (start, end) = (Included(Bytes::copy_from_slice(&prefix)), glob::behind(&prefix));
        let Some(mut first) = edge(store, start, end.clone(), false).await? else {
            // Its last key was deleted meanwhile.
            return edge(store, Unbounded, Unbounded, false).await;
        };
        let last = edge(store, Included(first.clone()), end.clone(), true).await?.unwrap_or_else(|| first.clone());
        let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
        if first == last || common >= DEPTH || common == first.len() && fastrand::bool() {
            return Ok(Some(first));
        }
        if common == first.len() {
            // All others are longer.
            first = edge(store, Excluded(first), end, false).await?.unwrap_or_else(|| last.clone());
        }
        let (Some(&low), Some(&high)) = (first.get(common), last.get(common)) else { return Ok(Some(first)) };
        let chosen = fastrand::u8(low..=high.max(low));
        prefix = [&first[..common], &[chosen]].concat();
        // Nothing may begin so: then what comes behind it, which there is.
        let start = Included(Bytes::copy_from_slice(&prefix));
        if let Some(key) = edge(store, start, Unbounded, false).await? {
            prefix.clear();
            prefix.extend_from_slice(&key[..key.len().min(common + 1)]);
        }
    }
}
/// The first key of a range, or the last.
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
        // What was seen so far has expired.
        (start, end) = match page.next {
            None => return Ok(None),
            Some(last) if reverse => (scan.start, Excluded(last)),
            Some(last) => (Excluded(last), scan.end),
        };
    }
}
