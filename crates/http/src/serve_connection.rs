//! One HTTP connection from its first byte to its end: the fast path first, then the general path.
use super::{
    connection_context::{ConnectionContext, ListenerRole},
    connection_deadlines::ConnectionDeadline,
    fast_path, general_path,
    http_worker_state::HttpWorkerState,
};
use larder_base::tls::ClientStream;
use larder_core::app::Worker;
use std::{net::SocketAddr, rc::Rc};

/// Serves one connection until the client, a limit or the drain ends it.
pub async fn serve_connection<S: ClientStream>(
    worker: Rc<Worker>,
    http: Rc<HttpWorkerState>,
    stream: S,
    peer: SocketAddr,
    role: ListenerRole,
) {
    // Fails when the runtime ends.
    let Ok(local) = stream.local_addr() else { return };
    tracing::debug!(%peer, "HTTP client connected");
    let deadline = Rc::new(ConnectionDeadline::begin(&worker.app, &http.deadlines).await);
    let certificate = (stream.is_node(), stream.certificate_user());
    let context = Rc::new(ConnectionContext::new(worker, http, (peer, local), role, certificate).await);
    // The admin listener has no hot routes.
    let handover = match role {
        ListenerRole::Native if !stream.speaks_http2() => fast_path::serve(&context, stream, &deadline).await,
        ListenerRole::Native | ListenerRole::Admin => Some((stream, Vec::new())),
    };
    if let Some((stream, read)) = handover {
        general_path::serve(context, stream, read, deadline).await;
    }
    tracing::debug!(%peer, "HTTP client disconnected");
}
