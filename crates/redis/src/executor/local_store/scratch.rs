//! The scratch tier: a temporary memory tier on which commands on a local store run. It has the
//! entries of their keys and nothing else.
use crate::{
    command::{Command, Flags},
    command_context::CommandContext,
    command_outcome::Done,
    commands::strings,
    executor::tier_commands::run_on,
};
use bytes::Bytes;
use larder_core::read::{Group, KeyChanges};
use larder_engine::{Cache, Condition, Expiry, Key, Millis, Stored, Write};
use larder_proto::resp::Args;
use larder_source::{SourceError, kind_of, metadata_of};
use larder_store::{StoredValue, clock};
use std::sync::Arc;

/// Keys whose existence is looked up at a time. Their values are in memory meanwhile.
const EXISTENCES: usize = 64;

/// A key that commands touch.
pub(super) struct WantedKey {
    pub(super) key: Bytes,
    look: Look,
}
/// What commands read of a key's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    /// Nothing, because they overwrite it.
    Away,
    Existence,
    Entry,
}

impl WantedKey {
    /// Whether commands read nothing of the key's value.
    pub(super) fn is_unread(&self) -> bool {
        self.look != Look::Entry
    }
}

/// The keys of commands, without duplicates.
pub(super) fn wanted<'a>(
    group: &Group,
    commands: impl Iterator<Item = (&'static Command, Args<'a>)>,
) -> Vec<WantedKey> {
    // The event of a new key asks whether there was one.
    let overwritten = if group.publishes_events() { Look::Existence } else { Look::Away };
    let mut keys: Vec<WantedKey> = commands
        .flat_map(|(command, args)| {
            let look = match command.flags {
                flags if flags.has(Flags::OVERWRITES) && strings::overwrites(args) => overwritten,
                flags if flags.has(Flags::EXISTENCE) => Look::Existence,
                _ => Look::Entry,
            };
            command.keys.of(args).map(move |key| WantedKey { key: Bytes::copy_from_slice(key), look })
        })
        .collect();
    keys.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    keys.dedup_by(|next, first| {
        let same = next.key == first.key;
        if same {
            first.look = first.look.max(next.look);
        }
        same
    });
    keys
}

/// A scratch tier. The caller holds the key locks.
pub(super) struct Scratch {
    cache: Arc<Cache>,
    keys: Vec<WantedKey>,
    /// The version and expiry of each entry as loaded. A key that is only overwritten begins with a
    /// placeholder.
    before: Vec<Option<(u64, Option<Millis>)>>,
    pub(super) now: Millis,
}

impl Scratch {
    pub(super) async fn load(group: &Group, keys: Vec<WantedKey>) -> Result<Scratch, SourceError> {
        let of = |look| keys.iter().filter(move |key| key.look == look).map(|key| key.key.clone());
        let (entries, existences): (Vec<_>, Vec<_>) = (of(Look::Entry).collect(), of(Look::Existence).collect());
        let mut found = group.load(group.local()?, &entries).await?.into_iter();
        let mut exist = Vec::with_capacity(existences.len());
        for some in existences.chunks(EXISTENCES) {
            let found = group.load(group.local()?, some).await?;
            exist
                .extend(found.into_iter().map(|found| found.map(|found| StoredValue { value: Bytes::new(), ..found })));
        }
        let mut exist = exist.into_iter();
        Ok(Scratch::with(group, keys, |look| match look {
            Look::Away => Some(StoredValue::string(Bytes::new(), None)),
            Look::Existence => exist.next().flatten(),
            Look::Entry => found.next().flatten(),
        }))
    }

    /// A scratch tier with one key, which has this entry.
    pub(super) fn of(group: &Group, key: WantedKey, mut entry: Option<StoredValue>) -> Scratch {
        Scratch::with(group, vec![key], |_| entry.take())
    }

    /// `entry` is asked for the entry of each key, in order.
    fn with(group: &Group, keys: Vec<WantedKey>, mut entry: impl FnMut(Look) -> Option<StoredValue>) -> Scratch {
        let now = clock::now();
        let cache = group.cache.scratch();
        let mut tier = cache.tier();
        let before = keys.iter().map(|key| {
            let StoredValue { value, expiry, kind } = entry(key.look)?;
            let metadata = metadata_of(kind);
            let write = Write {
                value: &value,
                expiry: expiry.map_or(Expiry::Never, Expiry::At),
                attributes: metadata.attributes(),
                condition: Condition::Always,
            };
            match tier.set(cache.key(&key.key), write, now) {
                Ok(Stored::Created(version) | Stored::Replaced(version)) => Some((version, expiry)),
                Ok(Stored::Unmet) | Err(_) => None,
            }
        });
        let before = before.collect();
        drop(tier);
        Scratch { cache, keys, before, now }
    }

    pub(super) fn run(&mut self, call: &mut CommandContext<'_>) -> Done {
        call.now = self.now;
        let tier = &mut self.cache.tier();
        run_on(call, tier)
    }

    /// The last key, for another scratch tier.
    pub(super) fn into_key(mut self) -> Option<WantedKey> {
        self.keys.pop()
    }

    pub(super) fn changes(&self) -> KeyChanges {
        let mut tier = self.cache.tier();
        let keys = self.keys.iter().zip(&self.before);
        keys.filter_map(|(wanted, before)| {
            let key: Key<'_> = self.cache.key(&wanted.key);
            let after = tier.peek(key, self.now, |entry| match (entry.version(), entry.expiry()) {
                same if Some(same) == *before => None,
                (_, expiry) => {
                    Some(StoredValue { value: entry.value.to_bytes(), expiry, kind: kind_of(entry.metadata()) })
                }
            });
            match (after, before) {
                (Some(None), _) => None,
                (Some(Some(found)), _) => Some((wanted.key.clone(), Some(found))),
                (None, None) => None,
                (None, Some(_)) => Some((wanted.key.clone(), None)),
            }
        })
        .collect()
    }
}
