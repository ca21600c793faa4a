//! The floor by hand: epoll, one read, one write of as many canned replies as the read had
//! requests.
use super::sockets::accepted;
use crate::lib::load::poll::Poll;
use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
};

/// Replies in the buffer that writes are cut from.
const REPLIES: usize = 2048;
const LISTENER: usize = usize::MAX;

/// How requests are counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Requests {
    /// By their length, which is the same for all.
    OfBytes(usize),
    /// A read that ends with an empty line, or with a JSON object as the body, is one: the client
    /// sends the next when it has the answer.
    Reads,
}

impl Requests {
    /// How many end in this input; `partial` is what the one before left.
    fn count(self, input: &[u8], partial: &mut usize) -> usize {
        match self {
            Requests::OfBytes(bytes) => {
                let all = *partial + input.len();
                *partial = all % bytes;
                all / bytes
            }
            Requests::Reads => usize::from(input.ends_with(b"\r\n\r\n") || input.ends_with(b"}")),
        }
    }
}

/// A server with one answer.
pub(super) struct Canned {
    reply: usize,
    replies: Vec<u8>,
    requests: Requests,
}

struct Connection {
    stream: TcpStream,
    /// Bytes of the request that is not whole yet.
    partial: usize,
    /// Bytes of replies that are not written yet: the end of an endless row of replies.
    owed: usize,
    /// It is being waited for until it can be written to.
    blocked: bool,
}

impl Canned {
    pub(super) fn new(reply: &[u8], requests: Requests) -> Canned {
        Canned { reply: reply.len(), replies: reply.repeat(REPLIES), requests }
    }

    /// Serves until the process ends.
    pub(super) fn serve(&self, listener: &TcpListener) -> anyhow::Result<()> {
        listener.set_nonblocking(true)?;
        let mut poll = Poll::new()?;
        poll.add(listener, LISTENER, false)?;
        // Places are not used again: no load opens so many.
        let mut connections = Vec::new();
        let mut input = vec![0; 64 * 1024];
        loop {
            for event in 0..poll.wait(u64::MAX)? {
                let (token, _) = poll.event(event);
                if token == LISTENER {
                    // A client that gave up meanwhile cannot be served.
                    while let Ok((stream, _)) = listener.accept() {
                        let stream = accepted(stream)?;
                        poll.add(&stream, connections.len(), false)?;
                        connections.push(Some(Connection { stream, partial: 0, owed: 0, blocked: false }));
                    }
                } else if let Some(connection) = &mut connections[token]
                    && !self.turn(connection, token, &mut input, &poll)?
                {
                    connections[token] = None;
                }
            }
        }
    }

    /// One read and one write; false if the connection is over.
    fn turn(&self, connection: &mut Connection, token: usize, input: &mut [u8], poll: &Poll) -> anyhow::Result<bool> {
        // A client that does not take replies is not read from.
        if !connection.blocked {
            match connection.stream.read(input) {
                Ok(0) => return Ok(false),
                Ok(read) => {
                    connection.owed += self.reply * self.requests.count(&input[..read], &mut connection.partial)
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Ok(false),
            }
        }
        while connection.owed > 0 {
            let begin = (self.reply - connection.owed % self.reply) % self.reply;
            let end = self.replies.len().min(begin + connection.owed);
            match connection.stream.write(&self.replies[begin..end]) {
                Ok(written) => connection.owed -= written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Ok(false),
            }
        }
        if connection.blocked != (connection.owed > 0) {
            connection.blocked = connection.owed > 0;
            poll.modify(&connection.stream, token, connection.blocked)?;
        }
        Ok(true)
    }
}
