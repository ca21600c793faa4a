//! Connections from other addresses of this machine: all of 127.0.0.0/8 is here.
use super::common::PATIENCE;
use socket2::{Domain, Socket, Type};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
};

/// A connection to a port of 127.0.0.1 from 127.0.0.`host`.
pub fn from(host: u8, port: u16) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0)).into()).unwrap();
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes and reads all that comes until the other side ends the connection.
pub fn exchange(mut stream: TcpStream, bytes: &[u8]) -> String {
    // The other side may have ended it before all is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    // A reset ends it, too.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// What CLIENT INFO says of a connection's address, with the port; `before` is sent in front of the
/// command.
pub fn shown_address(mut stream: TcpStream, before: &[u8]) -> String {
    stream.write_all(&[before, b"CLIENT INFO\r\nQUIT\r\n"].concat()).unwrap();
    let answer = exchange(stream, b"");
    let address = answer.split(' ').find_map(|part| part.strip_prefix("addr="));
    address.unwrap_or_else(|| panic!("no address in {answer:?}")).to_owned()
}
