//! What is said first on a connection: who we are, which protocol, which database.
use super::{Settings, connect::Stream};
use crate::proto::resp::{self, Scanner};
use bytes::{Buf, BytesMut};
use std::{io, sync::Arc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// No reply of the handshake is nearly as long.
const MAX_REPLY: usize = 64 * 1024;
/// The name that `CLIENT LIST` shows.
const NAME: &[u8] = b"larder";

/// One command of the handshake.
struct Step {
    command: Vec<u8>,
    /// An error reply ends the attempt.
    required: bool,
}

/// All at once: each works on servers as old as Redis 2.6, except AUTH with a user (6.0) and HELLO (6.0, for RESP3 only).
fn steps(settings: &Settings, resp3: bool) -> Vec<Step> {
    let url = &settings.url;
    let mut commands: Vec<(Vec<&[u8]>, bool)> = Vec::new();
    let password = url.password.as_deref().map(str::as_bytes);
    let user = url.user.as_deref().map(str::as_bytes);
    match (resp3, password) {
        (true, Some(password)) => {
            commands.push((vec![b"HELLO", b"3", b"AUTH", user.unwrap_or(b"default"), password], true))
        }
        (true, None) => commands.push((vec![b"HELLO", b"3"], true)),
        (false, Some(password)) => {
            let mut auth: Vec<&[u8]> = vec![b"AUTH"];
            auth.extend(user);
            auth.push(password);
            commands.push((auth, true));
        }
        (false, None) => {}
    }
    let database = url.database.to_string();
    if url.database != 0 {
        commands.push((vec![b"SELECT", database.as_bytes()], true));
    }
    commands.push((vec![b"CLIENT", b"SETNAME", NAME], false));
    // A server that is loading its data, or wants a password, takes all of the above and says so now.
    commands.push((vec![b"PING"], true));
    commands.into_iter().map(|(parts, required)| Step { command: resp::encode(&parts), required }).collect()
}

/// Shakes hands and returns what was read beyond (nothing, as a rule).
///
/// # Errors
/// Why the server is of no use: its own words, where it has any.
pub(super) async fn shake_hands(stream: &mut Stream, settings: &Settings, resp3: bool) -> Result<BytesMut, Arc<str>> {
    let steps = steps(settings, resp3);
    let request: Vec<u8> = steps.iter().flat_map(|step| &step.command).copied().collect();
    stream.write_all(&request).await.map_err(reason)?;
    stream.flush().await.map_err(reason)?;
    let mut input = BytesMut::with_capacity(1024);
    for step in &steps {
        let mut scanner = Scanner::new(MAX_REPLY);
        let len = loop {
            match scanner.scan(&input) {
                Err(error) => return Err(error.to_string().into()),
                Ok(Some(len)) => break len,
                Ok(None) => {
                    if stream.read_buf(&mut input).await.map_err(reason)? == 0 {
                        return Err("connection closed by the source".into());
                    }
                }
            }
        };
        if step.required && input[0] == b'-' {
            return Err(String::from_utf8_lossy(input[1..len].trim_ascii_end()).into());
        }
        input.advance(len);
    }
    Ok(input)
}

/// An I/O error in words: `connection refused`, without the system's number.
pub(super) fn reason(error: io::Error) -> Arc<str> {
    match error.raw_os_error() {
        Some(_) if error.kind() != io::ErrorKind::Other => error.kind().to_string().into(),
        _ => error.to_string().into(),
    }
}
