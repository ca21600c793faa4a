//! What a write makes of the entry that a key has. It knows neither tier nor source.
use crate::{entry_view::EntryView, exptime::Expires};
use larder_proto::memcached::{StoreMode, number_of};
use larder_source::ClientMark;

/// memcached compares whole seconds.
const SECOND: u64 = 1000;

/// A write of one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'r> {
    pub(crate) what: What<'r>,
    /// The entry must have this version.
    pub(crate) if_version: Option<u64>,
    /// The version that the client gives it.
    pub(crate) new_version: Option<u64>,
}

/// What is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What<'r> {
    /// `is_stale`: an older version than the entry's may be stored as a stale value. `vivify`: what is
    /// appended to a key without an entry is stored.
    Store {
        mode: StoreMode,
        flags: u32,
        expires: Expires,
        value: &'r [u8],
        is_stale: bool,
        vivify: Option<Expires>,
    },
    /// `initial`: what a key without an entry gets.
    Arithmetic {
        is_increment: bool,
        delta: u64,
        initial: Option<(u64, Expires)>,
        expires: Option<Expires>,
    },
    Delete,
    /// `keeps_value`: only the mark changes.
    MarkStale {
        expires: Option<Expires>,
        keeps_value: bool,
    },
    /// The value becomes empty.
    Empty,
    Touch(Expires),
    /// `mg` that may change the entry: makes one, claims to make its value again, touches it.
    Claim {
        vivify: Option<Expires>,
        recache_at: Option<u64>,
        expires: Option<Expires>,
    },
}

impl What<'_> {
    /// Whether an entry keeps its value: only its mark or its expiry changes.
    pub(crate) fn keeps_value(&self) -> bool {
        matches!(self, What::Touch(_) | What::Claim { .. } | What::MarkStale { keeps_value: true, .. })
    }
}

/// What becomes of the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit {
    Keep,
    Delete,
    /// The scratch buffer is the value. Without an expiry it keeps the one that it has.
    Put(Option<Expires>, ClientMark),
    Expire(Expires),
}

/// What the client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Stored,
    NotStored,
    Exists,
    NotFound,
    /// Deleted, touched, marked.
    Done,
    Number(u64),
    /// A number that was not there before.
    Made(u64),
    NotANumber,
    /// `is_won`: the client makes the value again. `was_won`: another does already.
    Found {
        is_won: bool,
        was_won: bool,
    },
}

impl Write<'_> {
    /// Applies the write to what there is. A new value is in `scratch`, which is empty before.
    pub(crate) fn apply(&self, held: Option<&EntryView<'_>>, scratch: &mut Vec<u8>) -> (Edit, Outcome) {
        match self.what {
            What::Store { .. } => self.store(held, scratch),
            What::Arithmetic { .. } => self.arithmetic(held, scratch),
            What::Delete | What::MarkStale { .. } | What::Empty => match held {
                None => (Edit::Keep, Outcome::NotFound),
                Some(held) if self.misses(held) => (Edit::Keep, Outcome::Exists),
                Some(held) => match self.what {
                    What::MarkStale { expires, keeps_value } => {
                        if keeps_value {
                            scratch.extend_from_slice(held.value);
                        }
                        let mark = ClientMark { is_stale: true, is_won: false, version: self.new_version, ..held.mark };
                        (Edit::Put(expires, mark), Outcome::Done)
                    }
                    What::Empty => (
                        Edit::Put(None, ClientMark { version: self.new_version, ..ClientMark::default() }),
                        Outcome::Done,
                    ),
                    _ => (Edit::Delete, Outcome::Done),
                },
            },
            What::Touch(expires) => match held {
                None => (Edit::Keep, Outcome::NotFound),
                Some(_) => (Edit::Expire(expires), Outcome::Done),
            },
            What::Claim { vivify, recache_at, expires } => self.claim(held, scratch, vivify, recache_at, expires),
        }
    }

    fn misses(&self, held: &EntryView<'_>) -> bool {
        self.if_version.is_some_and(|version| version != held.version)
    }

    fn store(&self, held: Option<&EntryView<'_>>, scratch: &mut Vec<u8>) -> (Edit, Outcome) {
        let What::Store { mode, flags, expires, value, is_stale, vivify } = self.what else {
            unreachable!("checked before")
        };
        let mut mark = ClientMark { version: self.new_version, ..ClientMark::of_flags(flags) };
        let mut put = |parts: [&[u8]; 2], expires, mark| {
            parts.iter().for_each(|part| scratch.extend_from_slice(part));
            (Edit::Put(expires, mark), Outcome::Stored)
        };
        // With a version, `set` and `replace` are `cas`.
        let wanted = match (mode, self.if_version) {
            (StoreMode::Cas(version), _) | (StoreMode::Set | StoreMode::Replace, Some(version)) => Some(version),
            _ => None,
        };
        match (held, mode) {
            (None, _) if wanted.is_some() => (Edit::Keep, Outcome::NotFound),
            (None, StoreMode::Set | StoreMode::Add) => put([value, b""], Some(expires), mark),
            (None, StoreMode::Append | StoreMode::Prepend) if vivify.is_some() => put([value, b""], vivify, mark),
            (None, _) | (Some(_), StoreMode::Add) => (Edit::Keep, Outcome::NotStored),
            (Some(held), _) if wanted.is_some_and(|version| version != held.version) => {
                let is_older = wanted.is_some_and(|version| version != 0 && version < held.version);
                if !(is_stale && is_older) {
                    return (Edit::Keep, Outcome::Exists);
                }
                // Another client has marked the value as stale meanwhile: this one is not the newest.
                (mark.is_stale, mark.is_won) = (true, held.mark.is_won);
                put([value, b""], None, mark)
            }
            (Some(held), StoreMode::Append | StoreMode::Prepend) => {
                if self.misses(held) {
                    return (Edit::Keep, Outcome::Exists);
                }
                let parts = if mode == StoreMode::Append { [held.value, value] } else { [value, held.value] };
                put(parts, None, ClientMark { version: self.new_version, ..ClientMark::of_flags(held.mark.flags) })
            }
            (Some(_), _) => put([value, b""], Some(expires), mark),
        }
    }

    fn arithmetic(&self, held: Option<&EntryView<'_>>, scratch: &mut Vec<u8>) -> (Edit, Outcome) {
        let What::Arithmetic { is_increment, delta, initial, expires } = self.what else {
            unreachable!("checked before")
        };
        let Some(held) = held else {
            let Some((initial, expires)) = initial else { return (Edit::Keep, Outcome::NotFound) };
            scratch.extend_from_slice(itoa::Buffer::new().format(initial).as_bytes());
            let mark = ClientMark { version: self.new_version, ..ClientMark::default() };
            return (Edit::Put(Some(expires), mark), Outcome::Made(initial));
        };
        if held.value.is_empty() {
            return (Edit::Keep, Outcome::NotANumber);
        }
        if self.if_version.is_some_and(|version| version != 0 && version != held.version) {
            return (Edit::Keep, Outcome::Exists);
        }
        let Some(before) = number_of(held.value) else { return (Edit::Keep, Outcome::NotANumber) };
        let after = if is_increment { before.wrapping_add(delta) } else { before.saturating_sub(delta) };
        scratch.extend_from_slice(itoa::Buffer::new().format(after).as_bytes());
        // Like in memcached, a shorter number keeps the length of the value, and a longer one is a new
        // item.
        let mark = match scratch.len() > held.value.len() {
            true => ClientMark::of_flags(held.mark.flags),
            false => held.mark,
        };
        scratch.resize(scratch.len().max(held.value.len()), b' ');
        (Edit::Put(expires, ClientMark { version: self.new_version, ..mark }), Outcome::Number(after))
    }

    fn claim(
        &self,
        held: Option<&EntryView<'_>>,
        scratch: &mut Vec<u8>,
        vivify: Option<Expires>,
        recache_at: Option<u64>,
        expires: Option<Expires>,
    ) -> (Edit, Outcome) {
        let Some(held) = held else {
            let Some(lifetime) = vivify else { return (Edit::Keep, Outcome::NotFound) };
            let mark = ClientMark { is_won: true, version: self.new_version, ..ClientMark::default() };
            return (
                Edit::Put(Some(expires.unwrap_or(lifetime)), mark),
                Outcome::Found { is_won: true, was_won: false },
            );
        };
        let was_won = held.mark.is_won;
        let ends_soon = recache_at.is_some_and(|at| held.expiry.is_some_and(|expiry| expiry + SECOND <= at));
        let is_won = !was_won && (ends_soon || held.mark.is_stale);
        let found = Outcome::Found { is_won, was_won };
        if is_won {
            scratch.extend_from_slice(held.value);
            return (Edit::Put(expires, ClientMark { is_won: true, ..held.mark }), found);
        }
        (expires.map_or(Edit::Keep, Edit::Expire), found)
    }
}
