//! The floor of a proxy by hand: epoll, the requests of all clients over one connection, each reply
//! back to its client. It finds the ends of requests and replies, and copies bytes. It writes to
//! each socket once a turn.
use super::sockets::accepted;
use crate::lib::load::{
    poll::Poll,
    wire::{self, Expect, ReplyScan},
};
use anyhow::bail;
use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    mem,
    net::{SocketAddr, TcpListener, TcpStream},
};

const LISTENER: usize = usize::MAX;
const UPSTREAM: usize = usize::MAX - 1;
/// The most that one read takes. Requests and replies are shorter.
const READ: usize = 64 * 1024;

/// A socket and what it has not taken.
struct Peer {
    stream: TcpStream,
    /// The begin of a request or reply that is not whole yet.
    partial: Vec<u8>,
    out: Vec<u8>,
    /// It is waited for until it can be written to.
    blocked: bool,
    /// Something was put into `out` in this turn.
    dirty: bool,
}

impl Peer {
    fn new(stream: TcpStream) -> Peer {
        Peer { stream, partial: Vec::new(), out: Vec::new(), blocked: false, dirty: false }
    }

    /// Reads once, behind the partial request: the number of bytes in `input`. `None`: it has
    /// closed.
    fn read(&mut self, input: &mut [u8]) -> Option<usize> {
        let held = self.partial.len();
        input[..held].copy_from_slice(&self.partial);
        match self.stream.read(&mut input[held..]) {
            Ok(0) => None,
            Ok(read) => {
                self.partial.clear();
                Some(held + read)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
            Err(_) => None,
        }
    }

    /// Writes once; false if it has closed.
    fn write(&mut self, token: usize, poll: &Poll) -> anyhow::Result<bool> {
        self.dirty = false;
        match self.stream.write(&self.out) {
            Ok(written) if written == self.out.len() => self.out.clear(),
            Ok(written) => drop(self.out.drain(..written)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return Ok(false),
        }
        if self.blocked == self.out.is_empty() {
            self.blocked = !self.blocked;
            poll.modify(&self.stream, token, self.blocked)?;
        }
        Ok(true)
    }
}

/// A proxy in front of one server.
pub(super) struct Proxy {
    poll: Poll,
    upstream: Peer,
    /// Places are not used again: no load opens so many.
    clients: Vec<Option<Peer>>,
    /// Whose the next replies are, and how many.
    owed: VecDeque<(usize, usize)>,
    /// Clients that are written to at the end of the turn.
    dirty: Vec<usize>,
}

/// The ends of the whole requests or replies in `input`.
fn ends(input: &[u8]) -> impl Iterator<Item = anyhow::Result<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || match wire::scan_resp(Expect::Plain, &input[at..]) {
        ReplyScan::Done(found) => {
            at += found.len;
            Some(Ok(at))
        }
        ReplyScan::More(_) => None,
        ReplyScan::Bad(reason) => Some(Err(anyhow::anyhow!("not the Redis protocol: {reason}"))),
    })
}

impl Proxy {
    pub(super) fn connect(upstream: SocketAddr) -> anyhow::Result<Proxy> {
        let upstream = Peer::new(accepted(TcpStream::connect(upstream)?)?);
        let poll = Poll::new()?;
        poll.add(&upstream.stream, UPSTREAM, false)?;
        Ok(Proxy { poll, upstream, clients: Vec::new(), owed: VecDeque::new(), dirty: Vec::new() })
    }

    /// Serves until the process or the upstream ends.
    pub(super) fn serve(&mut self, listener: &TcpListener) -> anyhow::Result<()> {
        listener.set_nonblocking(true)?;
        self.poll.add(listener, LISTENER, false)?;
        let mut input = vec![0; 2 * READ];
        loop {
            for event in 0..self.poll.wait(u64::MAX)? {
                let (token, writable) = self.poll.event(event);
                match token {
                    LISTENER => {
                        // A client that gave up meanwhile cannot be served.
                        while let Ok((stream, _)) = listener.accept() {
                            let stream = accepted(stream)?;
                            self.poll.add(&stream, self.clients.len(), false)?;
                            self.clients.push(Some(Peer::new(stream)));
                        }
                    }
                    UPSTREAM => {
                        self.upstream.dirty |= writable;
                        self.take_replies(&mut input)?;
                    }
                    token => {
                        if writable {
                            self.dirty.push(token);
                        }
                        self.take_requests(token, &mut input)?;
                    }
                }
            }
            if self.upstream.dirty && !self.upstream.write(UPSTREAM, &self.poll)? {
                bail!("the server has closed the connection");
            }
            while let Some(token) = self.dirty.pop() {
                if let Some(client) = &mut self.clients[token]
                    && !client.write(token, &self.poll)?
                {
                    self.clients[token] = None;
                }
            }
        }
    }

    /// Passes the requests of a client on.
    fn take_requests(&mut self, token: usize, input: &mut [u8]) -> anyhow::Result<()> {
        let Some(client) = &mut self.clients[token] else { return Ok(()) };
        let Some(read) = client.read(input) else {
            // The replies that it is owed are dropped as they come.
            self.clients[token] = None;
            return Ok(());
        };
        let (mut whole, mut requests) = (0, 0);
        for end in ends(&input[..read]) {
            (whole, requests) = (end?, requests + 1);
        }
        client.partial.extend_from_slice(&input[whole..read]);
        if requests > 0 {
            self.upstream.out.extend_from_slice(&input[..whole]);
            self.upstream.dirty = true;
            self.owed.push_back((token, requests));
        }
        Ok(())
    }

    /// Passes replies to their clients.
    fn take_replies(&mut self, input: &mut [u8]) -> anyhow::Result<()> {
        let Some(read) = self.upstream.read(input) else { bail!("the server has closed the connection") };
        let mut whole = 0;
        for end in ends(&input[..read]) {
            let end = end?;
            let Some((token, left)) = self.owed.front_mut() else { bail!("a reply that nothing asked for") };
            let token = *token;
            *left -= 1;
            if *left == 0 {
                self.owed.pop_front();
            }
            if let Some(client) = &mut self.clients[token] {
                client.out.extend_from_slice(&input[whole..end]);
                if !mem::replace(&mut client.dirty, true) {
                    self.dirty.push(token);
                }
            }
            whole = end;
        }
        self.upstream.partial.extend_from_slice(&input[whole..read]);
        Ok(())
    }
}
