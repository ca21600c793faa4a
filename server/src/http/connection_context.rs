//! What the code of one connection works with: its worker, its buffer account, its client and its listener.
use super::http_worker_state::HttpWorkerState;
use crate::{
    app::Worker,
    buffers::{BufferAccount, ClientProtocol},
};
use std::{future::poll_fn, net::SocketAddr, rc::Rc, task::Poll};

/// Which routes a listener has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerRole {
    /// Keys and values, health and statistics.
    Native,
    /// Health, statistics and control; no keys and values.
    Admin,
}

/// One connection's surroundings.
pub(super) struct ConnectionContext {
    pub(super) worker: Rc<Worker>,
    pub(super) http: Rc<HttpWorkerState>,
    /// The connection's account.
    pub(super) holder: BufferAccount,
    pub(super) peer: SocketAddr,
    pub(super) role: ListenerRole,
    /// The client has shown a node's certificate.
    pub(super) is_node: bool,
}

impl ConnectionContext {
    /// Of the calling task's connection.
    pub(super) async fn new(
        worker: Rc<Worker>,
        http: Rc<HttpWorkerState>,
        peer: SocketAddr,
        role: ListenerRole,
        is_node: bool,
    ) -> ConnectionContext {
        let holder = buffer_account(&worker).await;
        ConnectionContext { worker, http, holder, peer, role, is_node }
    }
}

/// A buffer account for the calling task.
pub(super) async fn buffer_account(worker: &Worker) -> BufferAccount {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    BufferAccount::client(&worker.app.buffers, worker.id, ClientProtocol::Http, waker)
}
