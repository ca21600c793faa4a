//! What the code of one connection works with: its worker, its buffer account, its client and its
//! listener.
use super::worker_state::HttpWorkerState;
use crate::routing::request_user::KnownUsers;
use http::{HeaderMap, HeaderValue};
use larder_base::buffers::{BufferAccount, ClientProtocol};
use larder_config::Address;
use larder_core::app::{App, Worker};
use larder_proto::http::forwarded::{ClientAddress, client_of};
use std::{cell::Cell, future::poll_fn, rc::Rc, task::Poll, time::Duration};

/// Which routes a listener has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerRole {
    /// Keys and values, health and statistics.
    Native,
    /// Health, statistics, control and the console, which reads keys and values and changes none.
    Admin,
}

/// Between two looks for a client that may be gone.
const LOOK: Duration = Duration::from_secs(1);

/// Asks, while an answer may take for ever, whether its client is still there: hyper does not look
/// during a request, because clients may close their sending side behind it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientWatch(Rc<Cell<bool>>);
impl ClientWatch {
    /// Makes the connection look each second. The task of the connection has to poll this.
    pub(crate) async fn look(self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.0.set(true);
        }
    }
    /// Whether it is time to look.
    pub(crate) fn take(&self) -> bool {
        self.0.take()
    }
}

pub(crate) struct ConnectionContext {
    pub(crate) worker: Rc<Worker>,
    pub(crate) http: Rc<HttpWorkerState>,
    pub(crate) holder: BufferAccount,
    pub(crate) peer: Address,
    pub(crate) role: ListenerRole,
    /// Names in `Host` are checked (`allowed-hosts`).
    checks_hosts: bool,
    /// The client has shown a node's certificate.
    pub(crate) is_node: bool,
    /// The client has shown `peer-secret` on this connection: guesses of others from its address
    /// keep it waiting no more.
    pub(crate) has_shown_secret: Cell<bool>,
    /// The header in which `peer`, a trusted proxy, names the client of each request.
    pub(crate) forwarded: Option<&'static str>,
    pub(crate) users: KnownUsers,
    pub(crate) client_watch: ClientWatch,
}

impl ConnectionContext {
    /// Of the calling task's connection.
    pub(crate) async fn new(
        worker: Rc<Worker>,
        http: Rc<HttpWorkerState>,
        (peer, local): (Address, Address),
        role: ListenerRole,
        (is_node, certificate_user): (bool, Option<&str>),
    ) -> ConnectionContext {
        let holder = buffer_account(&worker).await;
        let proxies = &worker.app.settings.proxies;
        let checks_hosts = checks_hosts(&worker.app, role, &local);
        let forwarded = proxies.header.field().filter(|_| proxies.trusts(peer.ip()));
        ConnectionContext {
            worker,
            http,
            holder,
            peer,
            role,
            checks_hosts,
            is_node,
            has_shown_secret: Cell::new(false),
            forwarded,
            users: KnownUsers::new(certificate_user),
            client_watch: ClientWatch::default(),
        }
    }

    /// Whether clients may reach this listener by the host in `Host`.
    pub(crate) fn allows_host(&self, host: &[u8]) -> bool {
        !self.checks_hosts || self.worker.app.settings.allowed_hosts.allow(host)
    }

    /// The client of a request. `fields` finds the values of a header.
    #[inline]
    pub(crate) fn client<'h, F: Iterator<Item = &'h [u8]>>(
        &self,
        fields: impl FnOnce(&'static str) -> F,
    ) -> ClientAddress {
        let proxies = &self.worker.app.settings.proxies;
        let named = self.forwarded.and_then(|header| {
            let syntax = proxies.header.syntax()?;
            client_of(syntax, fields(header), |address| proxies.trusts(address))
        });
        named.unwrap_or_else(|| (&self.peer).into())
    }

    /// The client that a request is from, which a trusted proxy may name.
    pub(crate) fn client_of(&self, headers: &HeaderMap) -> ClientAddress {
        self.client(|name| headers.get_all(name).iter().map(HeaderValue::as_bytes))
    }
}

/// Whether a listener checks names in `Host`. The address of the listener counts: a proxy beside
/// this process reaches a listener on all addresses by loopback, too. No page reaches a Unix socket,
/// whatever its name leads to.
fn checks_hosts(app: &App, role: ListenerRole, local: &Address) -> bool {
    let plain: &[Address] = match role {
        ListenerRole::Native => &app.bound.http,
        ListenerRole::Admin if app.settings.admin_tls => &[],
        ListenerRole::Admin => app.bound.admin.as_slice(),
    };
    let is_listed = !app.settings.allowed_hosts.is_empty();
    let is_of = |bound: &&Address| bound.port() == local.port() && (bound.ip().is_unspecified() || *bound == local);
    plain.iter().find(is_of).is_some_and(|bound| is_listed || bound.ip().is_loopback() && bound.path().is_none())
}

pub(crate) async fn buffer_account(worker: &Worker) -> BufferAccount {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    BufferAccount::client(&worker.app.buffers, worker.id, ClientProtocol::Http, waker)
}
