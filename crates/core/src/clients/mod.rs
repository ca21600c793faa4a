//! Who is connected: what CLIENT LIST shows, CLIENT KILL ends, and the acceptor balances.
//!
//! A connection belongs to one worker, which alone writes to its [`Client`] (except for
//! [`Client::close`]). Each worker has its own map of clients, locked only when a connection opens
//! or closes or when a client lists them.
//!
//! No sockets in here: `net` serves them, and `redis` has the commands. Push messages for a client
//! are in [`push_inbox`], who has subscribed in [`PubSub`], who may hold copies of which keys in
//! [`Tracking`], and open SCAN cursors in [`Cursors`].
mod client;
mod client_registry;
mod forwarded_name;
mod pubsub_registry;
pub mod push_inbox;
mod scan_cursors;
mod subscribes_in_flight;
mod tracking_table;

pub use client::{About, Client, Closing, Moves, Tracks, Waits};
pub use client_registry::{Clients, FullBy, Listed, Monitoring, Monitors, Seat};
pub use pubsub_registry::{PubSub, SubscriptionKind};
pub use scan_cursors::Cursors;
pub use subscribes_in_flight::{SubscribeInFlight, SubscribesInFlight};
pub use tracking_table::{Totals, Tracking, TrackingMode};

use larder_base::buffers::Buffers;
use larder_config::Settings;
use push_inbox::Backlog;
use std::sync::Arc;

/// What clients of the Redis protocol have in the process besides their connections.
pub struct ClientTables {
    /// The byte budget for undelivered pushes.
    pub backlog: Arc<Backlog>,
    /// Open SCAN cursors.
    pub cursors: Cursors,
    /// Which keys clients may have copies of, where Larder itself does the tracking.
    pub tracking: Arc<Tracking>,
    /// Who has subscribed, where no Redis source does that.
    pub pubsub: Arc<PubSub>,
    /// Subscribing commands on their way to a Redis source.
    pub subscribes: Arc<SubscribesInFlight>,
}

impl ClientTables {
    pub(crate) fn new(settings: &Settings, buffers: &Arc<Buffers>) -> ClientTables {
        let backlog = Arc::new(Backlog::new(settings.max_backlog, buffers.clone()));
        ClientTables {
            cursors: Cursors::new(buffers),
            tracking: Arc::new(Tracking::new(settings.tracking_table_max_keys, backlog.clone())),
            pubsub: Arc::new(PubSub::new(backlog.clone())),
            subscribes: Arc::default(),
            backlog,
        }
    }
}
