//! The task of a connection: connect, exchange requests and replies, reconnect after a loss.
use super::{
    reconnect_backoff::{BACKOFF, Backoff},
    request_queue::RequestQueue,
};
use crate::source_health::{AddressInLogs, ConnectionHealth, ConnectionState};
use std::{rc::Rc, sync::Arc};
use tokio::time::{Instant, sleep, timeout};

/// Connects, exchanges requests and replies, and reconnects, forever.
pub(super) async fn keep_connected(connection: Rc<RequestQueue>, mut health: Option<ConnectionHealth>) {
    let name = connection.settings.name();
    let mut in_logs = AddressInLogs::new(connection.settings.health.clone(), name.clone());
    let mut set_state = |next| {
        if let Some(health) = &mut health {
            health.set(next);
        }
        in_logs.set(next)
    };
    let mut backoff = Backoff::default();
    let mut connections = 0u64;
    let mut refused = false;
    let mut others = connection.settings.connected.subscribe();
    loop {
        others.mark_unchanged();
        match connection.attempt().await {
            Ok(connected) => {
                let handshake = &connected.handshake;
                if let Some(identity) = &handshake.identity {
                    *connection.settings.identity.lock() = Some(Arc::new(identity.clone()));
                }
                connection.settings.connected.send_modify(|count| *count += 1);
                connections += 1;
                if connections > 1 {
                    connection.settings.health.note_reconnect();
                }
                connection.go_up();
                match set_state(ConnectionState::Up) {
                    true => tracing::info!(source = %name, "source connected"),
                    false => tracing::debug!(source = %name, "one more connection to the source"),
                }
                if let (Some(refusal), false) = (&handshake.untracked, refused) {
                    tracing::warn!(
                        source = %name, %refusal,
                        "the source does not announce changes (CLIENT TRACKING): nothing is kept; coherence = ttl keeps copies for their lifetimes"
                    );
                }
                refused = handshake.untracked.is_some();
                let since = Instant::now();
                let reason = connection.run_until_lost(connected).await;
                match set_state(ConnectionState::Unknown) {
                    true => tracing::warn!(source = %name, %reason, "source connection lost"),
                    false => tracing::debug!(source = %name, %reason, "one more connection to the source is lost"),
                }
                if since.elapsed() > BACKOFF.1 {
                    backoff = Backoff::default();
                } else {
                    // The server may accept and close connections over and over, so pause.
                    connection.meanwhile(sleep(backoff.next()), "").await;
                }
            }
            Err(reason) => {
                connection.go_down(&reason);
                connection.settings.master.iter().for_each(|master| master.request_refresh());
                match set_state(ConnectionState::Down) {
                    true => tracing::warn!(source = %name, %reason, "source is down"),
                    false => tracing::debug!(source = %name, %reason, "the source cannot be reached"),
                }
                if timeout(backoff.next(), others.changed()).await.is_ok() {
                    connection.go_up();
                }
            }
        }
    }
}

/// Connects once, and does not reconnect.
pub(super) async fn connect_once(connection: Rc<RequestQueue>) {
    let reason = match connection.attempt().await {
        Ok(connected) => connection.run_until_lost(connected).await,
        Err(reason) => reason,
    };
    connection.go_down(&reason);
    connection.pushes.note_loss();
}
