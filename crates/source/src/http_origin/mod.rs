//! `http://HOST:PORT/PATH/{key}`, `https://…`: an HTTP API, of which each key is a URL.
//!
//! ```text
//! fetch(batch) ── a task for each ──► address_choice ──► connection_pool: open, or new ── GET ──► origin
//!                      │                                                                          │
//!                      └─ answer_meaning: value, absence, error  ◄──────── head, body ◄───────────┘
//!                         response_freshness: until when the value is fresh (RFC 9111)
//! ```
//!
//! - HTTP/2, if an `https:` origin chooses it in the TLS handshake: a core has one connection to an
//!   address, and another when that has 100 requests under way. A connection on which a request
//!   waited in vain gets no more.
//! - HTTP/1.1 otherwise: a connection carries one request at a time. A core keeps idle connections
//!   and opens new ones as it needs them; what bounds them is `source-max-in-flight`.
//! - The whole fetch, a connection to be made included, has the deadline `source-timeout`. Within
//!   it, each attempt to connect and the head of the answer may have deadlines of their own.
//! - Over plain TCP a fetch writes and reads its socket itself. A response that does not come in
//!   one piece goes on with hyper, and so does its connection from then on; with TLS hyper has the
//!   connections from the start.
//! - A request that an idle or shared connection did not answer is sent once more, on a new
//!   connection: origins end connections when they like. So is any that the origin says it did not
//!   take. One that found no connection goes to another address. Any other failure is the answer.
//! - An address to which the latest attempt to connect failed is out: it is asked only if all are,
//!   and probed until it is reached.
//! - What an origin asks for with `Retry-After` is honoured: for the key (429), or for the address
//!   (503).
//! - Nothing is allocated for a length that the origin only announces beyond what `max-value` and
//!   `max-buffers` allow.
//! - A response that the origin marks as not to be kept answers those who wait for it and is not
//!   kept.
//! - A copy with validators is renewed by asking whether it has changed.
//! - A value larger than `max-value` passes through to each HTTP client that asks, piece by piece.
//!   For some seconds its key is not fetched.
//! - Writes, where they are allowed, go to one address once. Only what was surely not sent is sent
//!   again.
mod address_attempts;
mod address_choice;
mod answer_meaning;
mod connection_pool;
mod exchange;
mod fast_exchange;
mod http_date;
mod key_moments;
mod not_modified;
mod origin_connection;
mod origin_settings;
mod origin_source;
mod pass_through;
mod replayed_stream;
mod request_deadline;
mod request_headers;
mod request_target;
mod response_body;
mod response_freshness;
mod response_metadata;
mod retry_after;
mod send_request;
mod whole_response;
mod write_exchange;

pub(super) use origin_source::setup;
