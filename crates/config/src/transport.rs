//! How client connections are read and written.

/// The system calls of client connections without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Epoll, and io_uring for connections of the Redis protocol while many requests arrive together.
    #[default]
    Auto,
    /// Readiness by epoll, then a read and a write for each connection.
    Epoll,
    /// A ring for each worker, where the kernel allows it.
    IoUring,
    /// Connections of the Redis protocol move between the two all the time (tests).
    Alternate,
}
impl Transport {
    pub(super) const NAMES: &'static [&'static str] = &["auto", "epoll", "io-uring", "alternate"];
    pub(super) fn from_name(name: &str) -> Transport {
        match name {
            "epoll" => Transport::Epoll,
            "io-uring" => Transport::IoUring,
            "alternate" => Transport::Alternate,
            _ => Transport::Auto,
        }
    }
}
