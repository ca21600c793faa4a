//! Which connections a worker's ring serves, by the setting `transport`, and what it knows of their
//! protocol.
use larder_config::Transport;

/// The key of the command that the input begins with, if it is all there and has one.
pub(in crate::net) type FirstKey = for<'i> fn(&'i [u8]) -> Option<&'i [u8]>;

/// Which connections of a worker with a ring use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    Ring,
    /// Those of the Redis protocol, while requests come together.
    Auto,
    /// Those of the Redis protocol, which move at nearly every wait (tests).
    Alternate,
}

impl Placement {
    pub(super) fn of(transport: Transport) -> Option<Placement> {
        match transport {
            Transport::Epoll => None,
            Transport::IoUring => Some(Placement::Ring),
            Transport::Auto => Some(Placement::Auto),
            Transport::Alternate => Some(Placement::Alternate),
        }
    }
}
