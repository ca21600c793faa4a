//! A free port of the loopback for a server.
use anyhow::Context;
use rustix::net;
use std::{
    net::{Ipv4Addr, SocketAddr},
    os::fd::OwnedFd,
};

/// Where a server is to listen.
pub(crate) struct Port {
    pub(crate) address: SocketAddr,
    _bound: Option<OwnedFd>,
}

impl Port {
    /// For a server that chooses one itself.
    pub(super) fn unknown() -> Port {
        Port { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), _bound: None }
    }
}

/// A port for servers that cannot choose one themselves and say which: no other server is given it
/// while this value lives.
///
/// It is bound here without being listened on. Who names it and says SO_REUSEADDR, as servers do,
/// can listen on it all the same (ip(7), socket(7)).
pub(crate) fn free_port() -> anyhow::Result<Port> {
    fixed_port(0)
}

/// The same for a certain port; an error if another process listens on it.
pub(crate) fn fixed_port(number: u16) -> anyhow::Result<Port> {
    let bound = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
    net::sockopt::set_socket_reuseaddr(&bound, true)?;
    net::bind(&bound, &SocketAddr::from((Ipv4Addr::LOCALHOST, number))).context("cannot bind a port")?;
    Ok(Port { address: net::getsockname(&bound)?.try_into()?, _bound: Some(bound) })
}
