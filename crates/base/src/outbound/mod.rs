//! Connections that Larder opens to other servers: TCP, TLS, and HTTP over either.
//!
//! ```text
//! connect_tcp ──► Stream ──┬─ RESP, PostgreSQL, replication: their rooms speak it
//!                          ├─ speak_http1 ──► one connection: HTTP origins, Kubernetes' API, S3, OTLP, the command line
//!                          ├─ HttpClient: idle connections, one whole answer: peers, the primary of a replica
//!                          └─ Http2Connections: requests that share a connection: HTTP origins, peers over gRPC
//! ```
//!
//! Invariants:
//! - An answer that is read whole is bounded, and on the account of the buffers.
//! - A request that must not be made twice is sent again only if nothing of it has left.
mod http1;
mod http2_connections;
mod http_client;
mod stream;

pub use http_client::{HttpClient, HttpFailure, HttpServer, Resend};
pub use http1::{speak_http1, with_cause};
pub use http2_connections::{Http2Connections, Http2Stream};
pub use stream::{Stream, connect_tcp, stop_pacing};
