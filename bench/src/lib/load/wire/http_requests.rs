//! HTTP/1.1 (RFC 9112) over connections that are kept.
use super::{
    request_template::{Piece, fill, number, pieces},
    scanned_reply::{Expect, MAX_BODY, ReplyScan, ScannedReply, length},
    statuses::Statuses,
};
use crate::lib::load::{ops::Verb, reply_kinds::ReplyKind, target::TargetUrl};
use anyhow::{Context, ensure};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Longest head of an answer.
const MAX_HEAD: usize = 64 * 1024;
/// Where keys are if the URL has no path.
const KV: &str = "/v1/kv/{key}";

/// The requests' fixed parts.
#[derive(Debug, Clone)]
pub(crate) struct HttpRequests {
    path: Vec<Piece>,
    /// ` HTTP/1.1`, the headers that all requests have, without the empty line at the end.
    tail: Vec<u8>,
    raw: Vec<Option<Raw>>,
    statuses: Statuses,
}

#[derive(Debug, Clone)]
struct Raw {
    method: Vec<u8>,
    path: Vec<Piece>,
    body: Option<Vec<Piece>>,
}

impl HttpRequests {
    pub(super) fn new<'a>(
        target: &TargetUrl,
        verbs: impl Iterator<Item = &'a Verb>,
        headers: &[String],
        statuses: Statuses,
    ) -> anyhow::Result<HttpRequests> {
        let path = match target.path.as_str() {
            "" | "/" if !target.path.contains("{key}") => KV.to_owned(),
            path if path.starts_with('?') => format!("/{path}"),
            path => path.to_owned(),
        };
        let mut tail = format!(" HTTP/1.1\r\nHost: {}\r\n", target.authority);
        for header in headers {
            let (name, value) = header.split_once(':').with_context(|| format!("--header {header:?} has no colon"))?;
            ensure!(!header.contains(['\r', '\n']), "--header {header:?} breaks the line");
            tail.push_str(&format!("{}: {}\r\n", name.trim(), value.trim()));
        }
        let raw = verbs.map(|verb| match verb {
            Verb::Raw(text) => {
                // METHOD path body; a path has no blanks.
                let mut parts = text.splitn(3, ' ');
                let method = parts.next().unwrap_or_default();
                let path = parts.next().with_context(|| format!("raw request {text:?} has no path"))?;
                ensure!(path.starts_with('/'), "raw request {text:?}: the path begins with /");
                Ok(Some(Raw { method: method.into(), path: pieces(path), body: parts.next().map(pieces) }))
            }
            _ => Ok(None),
        });
        let raw = raw.collect::<anyhow::Result<_>>()?;
        Ok(HttpRequests { path: pieces(&path), tail: tail.into_bytes(), raw, statuses })
    }

    fn head(&self, method: &[u8], key: &[u8], body: Option<usize>, out: &mut Vec<u8>) {
        out.extend_from_slice(method);
        out.push(b' ');
        fill(&self.path, key, b"", encode_key, out);
        self.rest_of_head(body, out);
    }

    fn rest_of_head(&self, body: Option<usize>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tail);
        if let Some(body) = body {
            out.extend_from_slice(b"Content-Length: ");
            number(body, out);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    pub(super) fn get(&self, key: &[u8], out: &mut Vec<u8>) {
        self.head(b"GET", key, None, out);
    }

    pub(super) fn set(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.head(b"PUT", key, Some(value.len()), out);
        out.extend_from_slice(value);
    }

    pub(super) fn del(&self, key: &[u8], out: &mut Vec<u8>) {
        self.head(b"DELETE", key, None, out);
    }

    /// Larder's `POST /v1/mget`.
    pub(super) fn mget<'a>(&self, keys: impl Iterator<Item = &'a [u8]>, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        scratch.clear();
        scratch.extend_from_slice(b"{\"keys\":[");
        for (index, key) in keys.enumerate() {
            scratch.extend_from_slice(if index == 0 { b"\"" } else { b",\"" });
            json_escape(key, scratch);
            scratch.push(b'"');
        }
        scratch.extend_from_slice(b"]}");
        out.extend_from_slice(b"POST /v1/mget");
        self.rest_of_head(Some(scratch.len()), out);
        out.extend_from_slice(scratch);
    }

    pub(super) fn raw(&self, verb: usize, key: &[u8], value: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        let Some(raw) = &self.raw[verb] else { return };
        out.extend_from_slice(&raw.method);
        out.push(b' ');
        fill(&raw.path, key, value, encode_key, out);
        scratch.clear();
        if let Some(body) = &raw.body {
            fill(body, key, value, json_escape, scratch);
        }
        self.rest_of_head(raw.body.as_ref().map(|_| scratch.len()), out);
        out.extend_from_slice(scratch);
    }

    pub(super) fn scan(&self, expect: Expect, bytes: &[u8]) -> ReplyScan {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut answer = httparse::Response::new(&mut headers);
        let head = match answer.parse(bytes) {
            Ok(httparse::Status::Complete(head)) => head,
            Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return ReplyScan::More(bytes.len() + 1),
            Ok(httparse::Status::Partial) => return ReplyScan::Bad("an endless head"),
            Err(_) => return ReplyScan::Bad("no HTTP answer"),
        };
        let status = answer.code.unwrap_or(0);
        let (mut body, mut chunked, mut close) = (None, false, answer.version == Some(0));
        let mut cache_hit = None;
        for header in answer.headers.iter() {
            match header.name.len() {
                14 if header.name.eq_ignore_ascii_case("content-length") => match length(header.value.trim_ascii()) {
                    Some(length) => body = Some(length),
                    None => return ReplyScan::Bad("an impossible Content-Length"),
                },
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => chunked = true,
                12 if header.name.eq_ignore_ascii_case("cache-status") => cache_hit = Some(is_hit(header.value)),
                10 if header.name.eq_ignore_ascii_case("connection") => {
                    close = header.value.eq_ignore_ascii_case(b"close");
                }
                _ => {}
            }
        }
        let end = match (body, chunked) {
            // RFC 9112, 6.3: these have no body whatever they announce.
            _ if expect == Expect::Head || matches!(status, 100..=199 | 204 | 304) => Ok(head),
            (_, true) => chunks(bytes, head),
            (Some(body), false) => Ok(head + body),
            (None, false) => Err(ReplyScan::Bad("an answer without a length")),
        };
        match end {
            Ok(end) if bytes.len() < end => ReplyScan::More(end),
            // 100 Continue and other 1xx responses announce the answer.
            Ok(end) if (100..200).contains(&status) => match self.scan(expect, &bytes[end..]) {
                ReplyScan::More(least) => ReplyScan::More(end + least),
                ReplyScan::Done(reply) => ReplyScan::Done(ScannedReply { len: end + reply.len, ..reply }),
                bad => bad,
            },
            Ok(len) => {
                let lookup = expect == Expect::Lookup;
                let (found, missing) = (u32::from(lookup && status < 300), u32::from(lookup && status == 404));
                let (kind, error) = (ReplyKind::Status(status), self.statuses.error(status));
                ReplyScan::Done(ScannedReply { len, error, kind, cache_hit, found, missing, close })
            }
            Err(stop) => stop,
        }
    }
}

/// Does the last cache of a `Cache-Status` field say `hit`? That is the one nearest to the client
/// (RFC 9211, 2).
fn is_hit(field: &[u8]) -> bool {
    let nearest = field.rsplit(|&byte| byte == b',').next().unwrap_or_default();
    nearest.split(|&byte| byte == b';').skip(1).any(|parameter| parameter.trim_ascii() == b"hit")
}

/// The end of a chunked body (RFC 9112, 7.1) that begins at `at`.
fn chunks(bytes: &[u8], mut at: usize) -> Result<usize, ReplyScan> {
    loop {
        let Some(end) = memchr::memchr(b'\n', &bytes[at..]) else {
            return Err(match bytes.len() - at {
                0..1024 => ReplyScan::More(bytes.len() + 1),
                _ => ReplyScan::Bad("an endless chunk head"),
            });
        };
        let line = bytes[at..at + end].trim_ascii();
        let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let size = std::str::from_utf8(digits).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok());
        let size = size.filter(|&size| size <= MAX_BODY).ok_or(ReplyScan::Bad("an impossible chunk"))?;
        at += end + 1;
        if size == 0 {
            // Trailers, which no server here sends: only the empty line is taken.
            return match bytes.get(at..at + 2) {
                Some(b"\r\n") => Ok(at + 2),
                Some(_) => Err(ReplyScan::Bad("trailers")),
                None => Err(ReplyScan::More(at + 2)),
            };
        }
        at += size + 2;
        if bytes.len() < at {
            return Err(ReplyScan::More(at));
        }
    }
}

/// Bytes of a key that a path or query does not take as they are (RFC 3986). `&`, `+` and `=` mean
/// something in queries.
const ENCODED_IN_KEYS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'/')
    .remove(b'@')
    .remove(b',');

fn encode_key(key: &[u8], out: &mut Vec<u8>) {
    percent_encode(key, ENCODED_IN_KEYS).for_each(|part| out.extend_from_slice(part.as_bytes()));
}

/// A key within a JSON string; bytes that are not UTF-8 have no place there and become U+FFFD.
fn json_escape(key: &[u8], out: &mut Vec<u8>) {
    if key.iter().all(|&byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        out.extend_from_slice(key);
        return;
    }
    let quoted = serde_json::Value::from(String::from_utf8_lossy(key)).to_string();
    out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
}
