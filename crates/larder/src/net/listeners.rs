//! Binding the listeners, before anything else is started: a taken port must stop the start, not a
//! half-built process.
use super::unix_socket::{self, SocketFile};
use larder_base::lifecycle::RunError;
use larder_config::{Address, ProxyProtocol, Settings};
use larder_core::app::Bound;
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixListener,
};

/// Connections that the kernel completes for us while the acceptor is busy.
pub(super) const BACKLOG: i32 = 1024;

/// What is spoken on a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Http,
    /// With the number of the listener: 0 for those of the top level, then the named ones.
    Redis(usize),
    Memcached,
    Admin,
}

/// What a client meets at a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Door {
    pub(super) service: Service,
    pub(super) is_tls: bool,
    pub(super) proxy_protocol: ProxyProtocol,
}

pub(super) struct Listener {
    pub(super) door: Door,
    pub(super) socket: BoundSocket,
}

/// The socket of a listener.
pub(super) enum BoundSocket {
    Tcp(TcpListener),
    /// With its file, which goes with it.
    Unix(UnixListener, SocketFile),
}

impl Door {
    /// The setting that asked for the listener.
    pub(super) fn setting(self) -> &'static str {
        match (self.service, self.is_tls) {
            (Service::Http, false) => "http",
            (Service::Http, true) => "https",
            (Service::Redis(_), false) => "redis",
            (Service::Redis(_), true) => "rediss",
            (Service::Memcached, false) => "memcached",
            (Service::Memcached, true) => "memcacheds",
            (Service::Admin, _) => "admin",
        }
    }
}

/// Binds every address of the settings, in their order.
pub(super) fn bind(settings: &Settings) -> Result<(Vec<Listener>, Bound), RunError> {
    let own = settings.proxy_protocol;
    let named = settings.listeners.iter().map(|of| (&of.redis, &of.rediss, of.proxy_protocol));
    let redis = [(&settings.redis, &settings.rediss, own)].into_iter().chain(named).enumerate();
    let doors = |service, is_tls, proxy_protocol, addresses: &[Address]| -> Vec<(Door, Address)> {
        addresses.iter().map(|address| (Door { service, is_tls, proxy_protocol }, address.clone())).collect()
    };
    let redis = redis.flat_map(|(listener, (plain, tls, proxy_protocol))| {
        let service = Service::Redis(listener);
        [doors(service, false, proxy_protocol, plain), doors(service, true, proxy_protocol, tls)].concat()
    });
    let wanted = (doors(Service::Http, false, own, &settings.http).into_iter())
        .chain(doors(Service::Http, true, own, &settings.https))
        .chain(redis)
        .chain(doors(Service::Memcached, false, own, &settings.memcached))
        .chain(doors(Service::Memcached, true, own, &settings.memcacheds))
        .chain(doors(Service::Admin, settings.admin_tls, ProxyProtocol::Off, settings.admin.as_slice()));
    let mut listeners = Vec::new();
    let mut bound = Bound::default();
    for (door, address) in wanted {
        let failed = |error| RunError::Bind { setting: door.setting(), address: address.clone(), error };
        let (socket, real) = match &address {
            Address::Ip(address) => {
                let socket = listen(*address).map_err(failed)?;
                let real = socket.local_addr().map_err(failed)?;
                (BoundSocket::Tcp(socket), real.into())
            }
            Address::Unix(of) => {
                let (socket, file) = unix_socket::listen(of).map_err(failed)?;
                let real = file.address.clone();
                (BoundSocket::Unix(socket, file), real)
            }
        };
        match (door.service, door.is_tls) {
            (Service::Http, false) => bound.http.push(real),
            (Service::Http, true) => bound.https.push(real),
            (Service::Redis(_), false) => bound.redis.push(real),
            (Service::Redis(_), true) => bound.rediss.push(real),
            (Service::Memcached, false) => bound.memcached.push(real),
            (Service::Memcached, true) => bound.memcacheds.push(real),
            (Service::Admin, _) => bound.admin = Some(real),
        }
        listeners.push(Listener { door, socket });
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
