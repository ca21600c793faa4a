//! The account of open files: each connection is one, and the process may have only so many.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Of the files for clients, one in this many is kept for clients that connect later: connections
/// that the present ones need besides their own do not take it.
const KEPT_FOR_NEW_CLIENTS: usize = 8;

/// The files of clients: their connections, and the source's connections that belong to one client.
#[derive(Debug)]
pub struct OpenFiles {
    room: AtomicUsize,
    taken: AtomicUsize,
}

impl Default for OpenFiles {
    fn default() -> OpenFiles {
        OpenFiles { room: AtomicUsize::new(usize::MAX), taken: AtomicUsize::new(0) }
    }
}

impl OpenFiles {
    /// Bounds the files of clients to this many.
    pub fn set_room(&self, room: usize) {
        self.room.store(room, Relaxed);
    }

    /// A file for a client's connection. The admin listener may have `reserve` more.
    pub fn take(self: &Arc<Self>, reserve: usize) -> Option<OpenFile> {
        self.take_below(self.room.load(Relaxed).saturating_add(reserve))
    }

    /// A file for a connection to the source that belongs to one client.
    ///
    /// # Errors
    /// A text that names the limit.
    pub fn take_dedicated(self: &Arc<Self>) -> Result<OpenFile, &'static str> {
        let room = self.room.load(Relaxed);
        self.take_below(room - room / KEPT_FOR_NEW_CLIENTS).ok_or(
            "the limit on open files (ulimit -n) leaves none for a connection of this client alone \
             (blocking commands, subscriptions, WATCH, SELECT and CLIENT TRACKING need one); raise the limit",
        )
    }

    fn take_below(self: &Arc<Self>, bound: usize) -> Option<OpenFile> {
        let more = |taken| (taken < bound).then_some(taken + 1);
        self.taken.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(OpenFile(self.clone()))
    }
}

/// A file that is counted until this is dropped.
#[derive(Debug)]
pub struct OpenFile(Arc<OpenFiles>);
impl Drop for OpenFile {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dedicated_connections_leave_files_for_new_clients_and_for_admin() {
        let files = Arc::new(OpenFiles::default());
        files.set_room(16);
        let dedicated: Vec<_> = std::iter::from_fn(|| files.take_dedicated().ok()).collect();
        assert_eq!(dedicated.len(), 14);
        let clients: Vec<_> = std::iter::from_fn(|| files.take(0)).collect();
        assert_eq!(clients.len(), 2);
        let admin: Vec<_> = std::iter::from_fn(|| files.take(3)).collect();
        assert_eq!(admin.len(), 3);
        drop((dedicated, clients, admin));
        assert!(files.take_dedicated().is_ok());
    }
}
