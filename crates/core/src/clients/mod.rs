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
pub mod monitors;
mod pubsub_registry;
pub mod push_inbox;
mod scan_cursors;
mod subscribes_in_flight;
mod tracking_table;

pub use client::Closing;
pub use client::{About, Client, Moves, Tracks, Waits};
pub use client_registry::Clients;
pub use client_registry::Listed;
pub use client_registry::{FullBy, Monitoring, Seat};
pub use pubsub_registry::PubSub;
pub use pubsub_registry::SubscriptionKind;
pub use scan_cursors::Cursors;
pub use subscribes_in_flight::SubscribeInFlight;
pub use subscribes_in_flight::SubscribesInFlight;
pub use tracking_table::TrackingMode;
pub use tracking_table::{Totals, Tracking};
