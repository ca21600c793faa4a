//! One HTTP connection from its first byte to its end: the fast path first, then the general path.
pub(crate) mod closing_response;
pub(crate) mod connection_activity;
pub(crate) mod connection_context;
pub(crate) mod connection_deadlines;
pub(crate) mod general_path;
pub(crate) mod worker_state;

use crate::fast_path;
use connection_context::{ConnectionContext, ListenerRole};
use connection_deadlines::ConnectionDeadline;
use larder_base::tls::ClientStream;
use larder_config::Address;
use larder_core::app::Worker;
use std::rc::Rc;
use worker_state::HttpWorkerState;

/// Serves one connection until the client, a limit or the drain ends it.
pub async fn serve_connection<S: ClientStream>(
    worker: Rc<Worker>,
    http: Rc<HttpWorkerState>,
    stream: S,
    (peer, local): (Address, Address),
    role: ListenerRole,
) {
    tracing::debug!(%peer, "HTTP client connected");
    let deadline = Rc::new(ConnectionDeadline::begin(&worker.app, &http.deadlines).await);
    let certificate = (stream.is_node(), stream.certificate_user());
    let context = Rc::new(ConnectionContext::new(worker, http, (peer.clone(), local), role, certificate).await);
    // The admin listener has no fast routes.
    let handover = match role {
        ListenerRole::Native if !stream.speaks_http2() => fast_path::serve(&context, stream, &deadline).await,
        ListenerRole::Native | ListenerRole::Admin => Some((stream, Vec::new())),
    };
    if let Some((stream, read)) = handover {
        general_path::serve(context, stream, read, deadline).await;
    }
    tracing::debug!(%peer, "HTTP client disconnected");
}
