//! Where fetches of replies are sent: each key has one connection, of whichever core.
//!
//! Two replies about a key that were fetched over two connections cannot be kept side by side, for one may be older than the other and the
//! announcement of that still be on its way. With one connection to a key its replies stay in order. What a miss pays for it is a word to
//! another core.
use super::{Settings, UpstreamConnection};
use crate::source::Fetch;
use parking_lot::Mutex;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    iter,
    rc::Rc,
    sync::Arc,
};
use tokio::sync::mpsc;

/// A fetch for the connection with this position on its core.
type Letter = (usize, Fetch);

/// Every connection that fetches, of all cores.
#[derive(Default)]
pub(super) struct Homes(Mutex<Vec<Home>>);

struct Home {
    core: u32,
    position: usize,
    letters: mpsc::UnboundedSender<Letter>,
}

/// One core's connections in [`Homes`], until it is dropped.
pub(super) struct ReplyAffinity {
    settings: Arc<Settings>,
    core: u32,
}
impl Drop for ReplyAffinity {
    fn drop(&mut self) {
        self.settings.homes.0.lock().retain(|home| home.core != self.core);
    }
}

/// Has `links` take in what other cores send them.
pub(super) fn settle(settings: &Arc<Settings>, links: &Rc<[UpstreamConnection]>) -> ReplyAffinity {
    let core = settings.queue();
    let (letters, mut inbox) = mpsc::unbounded_channel::<Letter>();
    {
        let mut homes = settings.homes.0.lock();
        homes.extend((0..links.len()).map(|position| Home { core, position, letters: letters.clone() }));
        // The same order whichever core came first is not needed, but a key should keep its home while cores come.
        homes.sort_by_key(|home| (home.core, home.position));
    }
    drop(letters);
    let (ours, settings) = (Rc::downgrade(links), settings.clone());
    let health = settings.health.clone();
    tokio::task::spawn_local(async move {
        // Ends when `ReplyAffinity` has taken the senders out.
        while let Some((position, fetch)) = inbox.recv().await {
            match ours.upgrade() {
                Some(links) => links[position].fetch(iter::once(fetch)),
                None => health.abandoned(1),
            }
        }
    });
    ReplyAffinity { settings, core }
}

impl ReplyAffinity {
    /// Sends a fetch of a reply, which the health has admitted, to its key's connection.
    pub(super) fn send(&self, fetch: Fetch, links: &[UpstreamConnection]) {
        let mut hasher = DefaultHasher::new();
        fetch.key().hash(&mut hasher);
        let fetch = {
            let homes = self.settings.homes.0.lock();
            match homes.get(hasher.finish() as usize % homes.len().max(1)) {
                Some(home) if home.core == self.core => Some((home.position, fetch)),
                Some(home) => home.letters.send((home.position, fetch)).err().map(|unsent| unsent.0),
                None => Some((0, fetch)),
            }
        };
        if let Some((position, fetch)) = fetch {
            links[position % links.len()].fetch(iter::once(fetch));
        }
    }
}
