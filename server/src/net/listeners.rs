//! Binding the listeners, before anything else is started: a taken port must stop the start, not a half-built process.
use crate::{app::Bound, config::Settings, lifecycle::RunError};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{SocketAddr, TcpListener},
};

/// Connections that the kernel completes for us while the acceptor is busy.
const BACKLOG: i32 = 1024;

/// What is spoken on a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Http,
    /// With the number of the listener: 0 for those of the top level, then the named ones.
    Redis(usize),
    Admin,
}

impl Service {
    /// The setting that asked for the listener.
    fn setting(self) -> &'static str {
        match self {
            Service::Http => "http",
            Service::Redis(_) => "redis",
            Service::Admin => "admin",
        }
    }
}

/// Binds every address of the settings, in their order.
pub(super) fn bind(settings: &Settings) -> Result<(Vec<(Service, TcpListener)>, Bound), RunError> {
    let named = settings.listeners.iter().map(|listener| &listener.redis);
    let redis = [&settings.redis].into_iter().chain(named).enumerate();
    let redis = redis.flat_map(|(listener, addresses)| addresses.iter().map(move |a| (Service::Redis(listener), *a)));
    let wanted = (settings.http.iter().map(|a| (Service::Http, *a)))
        .chain(redis)
        .chain(settings.admin.iter().map(|a| (Service::Admin, *a)));
    let mut listeners = Vec::new();
    let mut bound = Bound::default();
    for (service, address) in wanted {
        let failed = |error| RunError::Bind { setting: service.setting(), address, error };
        let listener = listen(address).map_err(failed)?;
        let real = listener.local_addr().map_err(failed)?;
        match service {
            Service::Http => bound.http.push(real),
            Service::Redis(_) => bound.redis.push(real),
            Service::Admin => bound.admin = Some(real),
        }
        listeners.push((service, listener));
    }
    Ok((listeners, bound))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for the old process's connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
