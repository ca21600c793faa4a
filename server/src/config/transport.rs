//! How client connections are read and written.

/// The system calls of client connections without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Readiness by epoll, then a read and a write for each connection.
    #[default]
    Epoll,
    /// A ring for each worker, where the kernel allows it.
    IoUring,
}
impl Transport {
    pub(super) const NAMES: &'static [&'static str] = &["epoll", "io-uring"];
    pub(super) fn from_name(name: &str) -> Transport {
        match name {
            "io-uring" => Transport::IoUring,
            _ => Transport::Epoll,
        }
    }
}
