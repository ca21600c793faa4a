//! `get`, `gets`, and `mg` without flags that change the entry.
use crate::{
    entry_view::{EntryView, mark_of, version_of},
    meta_replies::{self, Key},
    replies,
    waiting_reads::{Form, Replies},
};
use larder_base::{special::Special, telemetry::RecordedOperation};
use larder_core::{
    app::Worker,
    gate,
    read::{Group, KEYS_AHEAD, StartedRead},
};
use larder_engine::{Entry, Millis, Value};
use larder_proto::{
    memcached::{Keys, Meta, MetaCommand},
    output::Output,
};
use larder_source::Fetch;
use smallvec::SmallVec;
use std::time::Instant;

/// Flags of `mg` that are about the entry.
const OF_GET: &[u8] = b"Okcfshlt";

/// One turn's way to the memory tier and the source.
pub(crate) struct Reader<'r> {
    pub(crate) worker: &'r Worker,
    pub(crate) group: &'r Group,
    pub(crate) now: Millis,
    pub(crate) batch: &'r mut Vec<Fetch>,
    /// The tier is the only store: versions are those of its entries.
    pub(crate) is_tier_alone: bool,
    /// When the command began, if it is measured.
    pub(crate) since: Option<Instant>,
}

impl Reader<'_> {
    /// `get` and `gets`.
    #[inline]
    pub(crate) fn get(&mut self, keys: Keys<'_>, with_version: bool, replies: &mut Replies<'_>) {
        let _one_table = self.group.one_table();
        let mut names = keys.into_iter();
        let (mut read, mut missed) = (0, 0);
        let has_room = loop {
            // Filled in place and borrowed: to move the row takes longer than to find it.
            let mut row: SmallVec<[_; KEYS_AHEAD]> = SmallVec::new();
            row.extend(names.by_ref().take(KEYS_AHEAD).map(|name| self.group.cache.key(name)));
            if row.len() > 1 {
                self.group.prefetch(row.iter().copied());
            }
            let is_last = row.len() < KEYS_AHEAD;
            for &key in &row {
                read += 1;
                self.note(key.bytes());
                let is_tier_alone = self.is_tier_alone;
                let begun = self.group.begin(key, self.now, self.batch, |entry| {
                    write_value(replies.output(), &entry, with_version, is_tier_alone);
                });
                match begun {
                    StartedRead::Hit(()) => {}
                    StartedRead::Absent => missed += 1,
                    StartedRead::Wait(wait) => {
                        let since = self.since_of_wait();
                        replies.wait(wait, Form::Get { with_version }, since);
                    }
                }
            }
            if is_last {
                break true;
            }
            if !replies::may_grow(self.worker, replies.owned()) {
                break false;
            }
        };
        match has_room {
            true => replies.output().put(b"END\r\n"),
            false => replies::no_room(self.worker, replies.output()),
        }
        self.worker.counters.memcached_gets.add(read);
        if missed > 0 {
            self.worker.counters.memcached_get_misses.add(missed);
        }
    }

    /// `mg`. False if it must change the entry: its reader is to make the value again.
    pub(crate) fn meta_get(&mut self, meta: &Meta<'_>, key: &Key, replies: &mut Replies<'_>) -> bool {
        let key = self.group.cache.key(key);
        self.note(key.bytes());
        let (is_tier_alone, now) = (self.is_tier_alone, self.now);
        let read = |entry: Entry<'_>| {
            let mark = mark_of(&entry);
            if mark.is_stale && !mark.is_won && is_tier_alone {
                return false;
            }
            let view = match is_tier_alone {
                true => EntryView::of(&entry),
                false => EntryView::at_source(entry.value.as_bytes(), mark, entry.expiry()),
            };
            meta_hit(replies.output(), meta, &view, &entry.value, (false, mark.is_won), now);
            true
        };
        let begun = match meta.flags.is_no_access && is_tier_alone {
            true => self.group.cache.tier().peek(key, now, read).map_or(StartedRead::Absent, StartedRead::Hit),
            false => self.group.begin(key, now, self.batch, read),
        };
        match begun {
            StartedRead::Hit(false) => return false,
            StartedRead::Hit(true) => {}
            StartedRead::Absent => {
                self.worker.counters.memcached_get_misses.add(1);
                meta_miss(replies.output(), meta);
            }
            StartedRead::Wait(wait) => {
                let since = self.since_of_wait();
                replies.wait(wait, Form::of_meta(meta), since);
            }
        }
        self.worker.counters.memcached_gets.add(1);
        true
    }

    /// `me`: what the tier has.
    pub(crate) fn meta_debug(&self, meta: &Meta<'_>, key: &Key, out: &mut Output) {
        let now = self.now;
        let shown = self.group.cache.tier().peek(self.group.cache.key(key), now, |entry| {
            let view = EntryView::of(&entry);
            let left = entry.expiry().map_or(-1, |at| at.saturating_sub(now).div_ceil(1000) as i64);
            let age = now.saturating_sub(entry.stored()) / 1000;
            let read = if view.was_read { "yes" } else { "no" };
            out.put(b"ME ");
            out.put(meta.key);
            let text =
                format!(" exp={left} la={age} cas={} fetch={read} cls=1 size={}\r\n", view.version, entry.footprint());
            out.put(text.as_bytes());
        });
        if shown.is_none() {
            out.put(b"EN\r\n");
        }
    }

    #[inline]
    fn note(&self, key: &[u8]) {
        if self.worker.is_on(Special::Recorder) {
            gate::note(self.worker, RecordedOperation::Get, key);
        }
    }

    /// When a read that waits has begun, if there is a slow log.
    fn since_of_wait(&self) -> Option<Instant> {
        self.since.or_else(|| self.worker.app.telemetry.slow.is_on().then(Instant::now))
    }
}

#[inline]
fn write_value(out: &mut Output, entry: &Entry<'_>, with_version: bool, is_tier_alone: bool) {
    let mark = mark_of(entry);
    let version = with_version.then(|| match is_tier_alone {
        true => mark.version.unwrap_or_else(|| entry.version()),
        false => version_of(entry.value.as_bytes(), mark.flags),
    });
    replies::value(out, entry.key, mark.flags, version, &entry.value);
}

/// The reply to an `mg` that has found something. `is_won`: the client makes the value again;
/// `was_won`: another does.
pub(crate) fn meta_hit(
    out: &mut Output,
    meta: &Meta<'_>,
    entry: &EntryView<'_>,
    value: &Value<'_>,
    (is_won, was_won): (bool, bool),
    now: Millis,
) {
    out.reserve(meta.key.len() + 128);
    // A client that has this version has the value.
    let with_value = meta.flags.with_value && meta.flags.version != Some(entry.version);
    if with_value {
        out.put(b"VA ");
        replies::number(out, entry.value.len() as u64);
    } else {
        out.put(b"HD");
    }
    meta_replies::entry_flags(out, meta, OF_GET, entry, now);
    if was_won {
        out.put(b" Z");
    }
    if entry.mark.is_stale {
        out.put(b" X");
    }
    if is_won {
        out.put(b" W");
    }
    out.put(b"\r\n");
    if with_value {
        replies::bytes(out, value);
    }
}

/// The reply to an `mg` that has found nothing.
pub(crate) fn meta_miss(out: &mut Output, meta: &Meta<'_>) {
    if !meta.flags.is_quiet || meta.command != MetaCommand::Get {
        meta_replies::status(out, "EN", meta);
    }
}
