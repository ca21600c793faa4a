//! The options of accepted connections.
use std::{io, net::TcpStream, os::fd::AsFd};

/// A connection with the options that larder's have: the kernel's part must be the same.
pub(super) fn accepted(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    // As larder does on the loopback. Where it is refused, the default serves.
    let _ = rustix::net::sockopt::set_tcp_congestion(stream.as_fd(), "reno");
    Ok(stream)
}
