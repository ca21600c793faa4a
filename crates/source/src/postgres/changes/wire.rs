//! One connection of the change stream: simple queries, and the copy of a replication slot.
//!
//! `tokio-postgres` speaks neither the replication mode nor `CopyBoth`, so the startup, which is
//! all that it would add, is made here of its own parts (`postgres-protocol`). Decision 0143.
use bytes::{Buf, BytesMut};
use larder_base::buffers::{BufferCharge, BufferKind, Buffers};
use larder_base::outbound::Stream;
use postgres_protocol::{
    authentication::{
        md5_hash,
        sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256},
    },
    message::frontend,
};
use std::{io, str, sync::Arc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Larger messages are not kept: only their first bytes are, which name the relation.
const LARGEST: usize = 16 * 1024 * 1024;
/// What is kept of them.
const HEAD: usize = 64;
/// A buffer that grew beyond this for one message is given back after it.
const USUAL: usize = 64 * 1024;
/// A query of Larder's own that gives more rows does not end as it should.
const MOST_ROWS: usize = 100_000;

/// Why the database does not do what it was asked.
#[derive(Debug)]
pub(super) struct Refusal {
    /// SQLSTATE; empty if the connection failed.
    pub(super) code: String,
    pub(super) text: String,
}
impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal { code: String::new(), text: error.to_string() }
    }
}
impl Refusal {
    pub(super) fn new(text: impl Into<String>) -> Refusal {
        Refusal { code: String::new(), text: text.into() }
    }
    /// Reads the fields of an error message.
    pub(super) fn read(fields: &[u8]) -> Refusal {
        let mut refusal = Refusal::new("");
        for field in fields.split(|byte| *byte == 0) {
            let Some((kind, text)) = field.split_first() else { continue };
            let text = String::from_utf8_lossy(text).replace(['\r', '\n'], " ");
            match kind {
                b'C' => refusal.code = text,
                b'M' => refusal.text = format!("SQLSTATE {}: {text}", refusal.code),
                _ => {}
            }
        }
        refusal
    }
}

/// The columns of a row, as text.
pub(super) type Row = Vec<Option<String>>;

/// One message of the server.
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) body: BytesMut,
    /// The message was larger than is kept.
    pub(super) is_cut: bool,
}

/// A connection whose startup is over.
pub(super) struct Wire {
    stream: Stream,
    input: BytesMut,
    /// Bytes of a message that is too large, still to skip.
    skipped: usize,
    charge: BufferCharge,
}

/// Who connects, and to what.
pub(super) struct Login<'l> {
    pub(super) user: &'l str,
    pub(super) password: Option<&'l str>,
    pub(super) database: &'l str,
    pub(super) is_replication: bool,
}

fn broken() -> Refusal {
    Refusal::new("its messages are not those of a PostgreSQL server")
}

impl Wire {
    /// Logs in.
    pub(super) async fn start(stream: Stream, login: &Login<'_>, buffers: &Arc<Buffers>) -> Result<Wire, Refusal> {
        let charge = buffers.charge(BufferKind::Fetched);
        let mut wire = Wire { stream, input: BytesMut::new(), skipped: 0, charge };
        let mut parameters = vec![
            ("user", login.user),
            ("database", login.database),
            ("client_encoding", "UTF8"),
            ("application_name", "larder changes"),
        ];
        if login.is_replication {
            parameters.push(("replication", "database"));
        }
        wire.send(|out| frontend::startup_message(parameters.iter().copied(), out)).await?;
        // With whether the server has proved that it knows the password.
        let mut scram = None;
        let mut is_let_in = false;
        loop {
            let mut frame = wire.answer().await?;
            match frame.kind {
                b'R' if frame.body.len() >= 4 => {
                    is_let_in = frame.body[..4] == [0; 4];
                    wire.authenticate(login, &mut frame.body, &mut scram).await?;
                }
                b'Z' if is_let_in => return Ok(wire),
                b'K' | b'S' | b'N' | b'v' => {}
                _ => return Err(broken()),
            }
        }
    }

    async fn authenticate(
        &mut self,
        login: &Login<'_>,
        body: &mut BytesMut,
        scram: &mut Option<(ScramSha256, bool)>,
    ) -> Result<(), Refusal> {
        let kind = body.get_u32();
        let password = || login.password.ok_or_else(|| Refusal::new("the server asks for a password"));
        match (kind, scram) {
            // In the middle of SCRAM the server has not proved that it knows the password.
            (0, None | Some((_, true))) => Ok(()),
            (0 | 3 | 5 | 10, Some(_)) => Err(Refusal::new("the server leaves out a part of SCRAM")),
            (3, _) => {
                let password = password()?;
                self.send(|out| frontend::password_message(password.as_bytes(), out)).await
            }
            (5, _) => {
                let salt = body.first_chunk().copied().ok_or_else(broken)?;
                let hash = md5_hash(login.user.as_bytes(), password()?.as_bytes(), salt);
                self.send(|out| frontend::password_message(hash.as_bytes(), out)).await
            }
            (10, scram) => {
                if !body[..].split(|byte| *byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes()) {
                    return Err(Refusal::new("the server offers no way to authenticate that Larder has"));
                }
                let begun = ScramSha256::new(password()?.as_bytes(), ChannelBinding::unsupported());
                let (scram, _) = scram.insert((begun, false));
                let message = scram.message().to_vec();
                self.send(|out| frontend::sasl_initial_response(SCRAM_SHA_256, &message, out)).await
            }
            (11, Some((scram, false))) => {
                scram.update(body)?;
                let message = scram.message().to_vec();
                self.send(|out| frontend::sasl_response(&message, out)).await
            }
            (12, Some((scram, is_proved @ false))) => {
                scram.finish(body)?;
                *is_proved = true;
                Ok(())
            }
            _ => Err(Refusal::new("the server asks for an authentication that Larder does not have")),
        }
    }

    async fn send(&mut self, write: impl FnOnce(&mut BytesMut) -> io::Result<()>) -> Result<(), Refusal> {
        let mut out = BytesMut::new();
        write(&mut out)?;
        self.stream.write_all(&out).await?;
        Ok(self.stream.flush().await?)
    }

    /// Sends a simple query; [`Answer`] takes what comes back.
    pub(super) async fn ask(&mut self, query: &str) -> Result<(), Refusal> {
        self.send(|out| frontend::query(query, out)).await
    }

    /// Asks, and reads all rows.
    pub(super) async fn query(&mut self, query: &str) -> Result<Vec<Row>, Refusal> {
        self.ask(query).await?;
        let mut answer = Answer::default();
        loop {
            let frame = self.next().await?;
            if let Some(rows) = answer.take(&frame)? {
                return rows;
            }
        }
    }

    /// Begins the copy of a replication slot. Afterwards [`Wire::next`] gives its messages (`d`).
    pub(super) async fn start_copy(&mut self, command: &str) -> Result<(), Refusal> {
        self.ask(command).await?;
        loop {
            match self.answer().await?.kind {
                b'W' => return Ok(()),
                b'N' | b'S' => {}
                _ => return Err(broken()),
            }
        }
    }

    /// Tells the server how far the stream was read. With `asks` it answers how far it has come.
    pub(super) async fn confirm(&mut self, position: u64, asks: bool) -> Result<(), Refusal> {
        let mut message = [0; 39];
        message[0] = b'd';
        message[1..5].copy_from_slice(&38u32.to_be_bytes());
        message[5] = b'r';
        for part in message[6..30].chunks_exact_mut(8) {
            part.copy_from_slice(&position.to_be_bytes());
        }
        message[38] = asks.into();
        self.stream.write_all(&message).await?;
        Ok(self.stream.flush().await?)
    }

    /// The next message, which is no error.
    async fn answer(&mut self) -> Result<Frame, Refusal> {
        let frame = self.next().await?;
        if frame.kind == b'E' { Err(Refusal::read(&frame.body)) } else { Ok(frame) }
    }

    /// The next message. May be dropped at any time; nothing is lost by it.
    pub(super) async fn next(&mut self) -> Result<Frame, Refusal> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(frame);
            }
            if self.input.is_empty() && self.input.capacity() > USUAL {
                self.input = BytesMut::new();
            }
            self.input.reserve(USUAL / 2);
            let read = self.stream.read_buf(&mut self.input).await?;
            if read == 0 {
                return Err(Refusal::new("the server closed the connection"));
            }
            self.charge.resize(self.input.capacity());
        }
    }

    /// The next message, if it has arrived.
    pub(super) fn buffered(&mut self) -> Result<Option<Frame>, Refusal> {
        let skipped = self.skipped.min(self.input.len());
        self.input.advance(skipped);
        self.skipped -= skipped;
        let Some(head) = self.input.first_chunk::<5>() else { return Ok(None) };
        let (kind, len) = (head[0], u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize);
        let len = len.checked_sub(4).ok_or_else(broken)?;
        let is_cut = len > LARGEST;
        let kept = if is_cut { HEAD } else { len };
        if self.input.len() < 5 + kept {
            return Ok(None);
        }
        self.input.advance(5);
        self.skipped = len - kept;
        Ok(Some(Frame { kind, body: self.input.split_to(kept), is_cut }))
    }
}

/// The answer to a query, while it is read.
#[derive(Default)]
pub(super) struct Answer {
    rows: Vec<Row>,
    refusal: Option<Refusal>,
}
impl Answer {
    /// Takes one message; the rows, or the refusal, when it is the last.
    ///
    /// # Errors
    /// The connection is not to be used any more.
    pub(super) fn take(&mut self, frame: &Frame) -> Result<Option<Result<Vec<Row>, Refusal>>, Refusal> {
        match frame.kind {
            _ if frame.is_cut => return Err(broken()),
            b'D' if self.rows.len() >= MOST_ROWS => return Err(broken()),
            b'D' => self.rows.push(read_row(&frame.body).ok_or_else(broken)?),
            b'E' => self.refusal = Some(Refusal::read(&frame.body)),
            b'Z' => {
                let rows = std::mem::take(&mut self.rows);
                return Ok(Some(self.refusal.take().map_or(Ok(rows), Err)));
            }
            _ => {}
        }
        Ok(None)
    }
}

fn read_row(mut body: &[u8]) -> Option<Row> {
    let count = take(&mut body, 2).map(|count| u16::from_be_bytes([count[0], count[1]]))?;
    let mut column = || {
        let len = take(&mut body, 4)?;
        let len = i32::from_be_bytes([len[0], len[1], len[2], len[3]]);
        match usize::try_from(len) {
            Ok(len) => Some(Some(str::from_utf8(take(&mut body, len)?).ok()?.to_owned())),
            Err(_) => Some(None),
        }
    };
    (0..count).map(|_| column()).collect()
}
fn take<'b>(bytes: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    const PASSWORD: &str = "secret";

    /// How a server logs a client in: each step is sent after a message of the client.
    async fn login(steps: &[&[u8]]) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connected");
        let (mut server, _) = listener.accept().await.expect("accepted");
        let serve = async {
            let mut read = BytesMut::new();
            for step in steps {
                server.read_buf(&mut read).await.expect("a message");
                server.write_all(step).await.expect("sent");
            }
            drop(server);
        };
        let login = Login { user: "u", password: Some(PASSWORD), database: "d", is_replication: false };
        let buffers = Buffers::unbounded();
        let (started, ()) = tokio::join!(Wire::start(Stream::Tcp(client), &login, &buffers), serve);
        started.map(drop).map_err(|refusal| refusal.text)
    }
    fn authentication(kind: u32, rest: &[u8]) -> Vec<u8> {
        let len = (8 + rest.len()) as u32;
        [b"R", &len.to_be_bytes()[..], &kind.to_be_bytes(), rest].concat()
    }

    /// A server without the password cannot leave out its part of SCRAM. A real server is in
    /// `postgres/changes.rs` of the program's tests.
    #[tokio::test]
    async fn a_server_that_leaves_out_its_proof_is_refused() {
        const READY: &[u8] = b"Z\0\0\0\x05I";
        let ok = [&authentication(0, b"")[..], READY].concat();
        let scram = authentication(10, b"SCRAM-SHA-256\0\0");
        let proof = authentication(12, b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
        let salt = authentication(5, b"salt");
        let left_out = Err("the server leaves out a part of SCRAM");
        let no_messages = Err("its messages are not those of a PostgreSQL server");
        for (name, steps, expected) in [
            ("trust", vec![&ok[..]], Ok(())),
            ("a password in clear", vec![&authentication(3, b""), &ok], Ok(())),
            ("MD5", vec![&salt, &ok], Ok(())),
            ("ready at once", vec![READY], no_messages),
            ("ready in the middle of MD5", vec![&salt, READY], no_messages),
            ("the end in the middle of SCRAM", vec![&scram, &ok], left_out),
            ("ready in the middle of SCRAM", vec![&scram, READY], no_messages),
            ("MD5 in the middle of SCRAM", vec![&scram, &salt], left_out),
            ("a password in the middle of SCRAM", vec![&scram, &authentication(3, b"")], left_out),
            ("SCRAM again", vec![&scram, &scram], left_out),
        ] {
            assert_eq!(login(&steps).await, expected.map_err(str::to_owned), "{name}");
        }
        // A proof that comes too early is another error of the protocol.
        assert!(login(&[&scram, &proof, &ok]).await.is_err());
    }
}
