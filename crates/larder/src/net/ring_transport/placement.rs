//! Which connections a worker's ring serves, by the setting `transport`.
use larder_config::Transport;

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
