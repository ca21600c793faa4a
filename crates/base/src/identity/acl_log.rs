//! What was refused lately: ACL LOG.
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    time::{Duration, Instant, SystemTime},
};

/// Entries that are kept (Redis's `acllog-max-len`).
const ENTRIES: usize = 128;
/// Entries about the same that are no further apart count as one.
const SAME_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    Command,
    Key,
    Channel,
    Login,
}
impl RefusalReason {
    /// The word that ACL LOG shows.
    pub fn word(self) -> &'static str {
        match self {
            RefusalReason::Command => "command",
            RefusalReason::Key => "key",
            RefusalReason::Channel => "channel",
            RefusalReason::Login => "auth",
        }
    }
}

#[derive(Debug, Clone)]
pub struct AclLogEntry {
    pub id: u64,
    pub count: u64,
    pub reason: RefusalReason,
    /// `toplevel` or `multi`.
    pub context: &'static str,
    /// The command, key or channel; `AUTH` for a login.
    pub object: Vec<u8>,
    pub user: String,
    /// The client as CLIENT LIST shows it.
    pub client: String,
    pub created: (Instant, SystemTime),
    pub updated: SystemTime,
}

/// Bytes of a key, a channel or a user's name that are kept.
const LONGEST: usize = 512;

/// The text as an entry keeps it. What is left out is counted in the text.
fn cut(text: &[u8]) -> Vec<u8> {
    match text.split_at_checked(LONGEST) {
        Some((kept, rest)) if !rest.is_empty() => {
            [kept, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
        }
        _ => text.to_vec(),
    }
}

#[derive(Debug, Default)]
pub struct AclLog(Mutex<Kept>);
#[derive(Debug, Default)]
struct Kept {
    next: u64,
    /// The latest first.
    entries: VecDeque<AclLogEntry>,
}

impl AclLog {
    /// Adds an entry, or counts it to one about the same.
    pub fn add(
        &self,
        (reason, context): (RefusalReason, &'static str),
        (object, user): (&[u8], &str),
        client: impl FnOnce() -> String,
    ) {
        let (object, user) = (cut(object), &*String::from_utf8_lossy(&cut(user.as_bytes())).into_owned());
        let (now, moment) = (Instant::now(), SystemTime::now());
        let mut kept = self.0.lock();
        let is_same = |entry: &AclLogEntry| {
            entry.reason == reason
                && entry.context == context
                && entry.object == object
                && entry.user == user
                && now.saturating_duration_since(entry.created.0) < SAME_WITHIN
        };
        if let Some(at) = kept.entries.iter().take(10).position(is_same)
            && let Some(mut entry) = kept.entries.remove(at)
        {
            (entry.count, entry.updated, entry.client) = (entry.count + 1, moment, client());
            kept.entries.push_front(entry);
            return;
        }
        let entry = AclLogEntry {
            id: kept.next,
            count: 1,
            reason,
            context,
            object,
            user: user.to_owned(),
            client: client(),
            created: (now, moment),
            updated: moment,
        };
        kept.next += 1;
        kept.entries.push_front(entry);
        kept.entries.truncate(ENTRIES);
    }
    pub fn latest(&self, count: usize) -> Vec<AclLogEntry> {
        self.0.lock().entries.iter().take(count).cloned().collect()
    }
    /// Forgets all entries.
    pub fn reset(&self) {
        self.0.lock().entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_entries_say_so() {
        let log = AclLog::default();
        let (key, user) = (vec![b'k'; 600], "u".repeat(513));
        log.add((RefusalReason::Key, "toplevel"), (&key, &user), String::new);
        log.add((RefusalReason::Key, "toplevel"), (&key, &user), String::new);
        log.add((RefusalReason::Key, "toplevel"), (&key[..512], "app"), String::new);
        let [short, long] = &log.latest(9)[..] else { panic!("two entries") };
        assert_eq!(short.object, &key[..512]);
        assert!(long.object.ends_with(b"k... (88 more bytes)") && long.user.ends_with("u... (1 more bytes)"));
        assert_eq!(long.count, 2);
    }
}
