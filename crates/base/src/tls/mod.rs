//! TLS, both sides of it: what a client trusts and shows, what the listeners show and ask for, and
//! a client's connection as the protocols see it.
//!
//! ```text
//! client_tls     files of a URL or of the settings ──► ClientTls ──► connect(TcpStream): sources, peers, replicas, the command line
//!
//! server_config  tls-cert, tls-key, tls-client-ca ──► LoadedFiles ─┐ read again when they change
//! server_tls     ServerTls: a configuration for each service ◄─────┘
//! handshake      TcpStream ──► TlsClientStream, in turns (handshake_turns) and in time
//! client_stream  ClientStream: TcpStream or TlsClientStream; net, http and replica are written for either
//! ```
//!
//! Invariants:
//! - One library (rustls) with one provider (ring), both ways.
//! - A client of ours verifies the server's certificate and name unless a URL says `insecure`.
//! - Files that cannot be used stop the start; later they change nothing, and are tried again.
//! - An open connection keeps what it began with; new files count for new connections.
//! - Plain connections run the code that they would run if there were no TLS: what is particular to
//!   TLS is constant for them.
mod certificate_facts;
mod certificates_by_host;
mod client_stream;
mod client_tls;
mod file_stamps;
mod handshake;
mod handshake_turns;
mod pem_files;
mod server_config;
mod server_tls;
#[cfg(test)]
mod tests;

pub use client_stream::{ClientStream, TlsClientStream};
pub use client_tls::ClientTls;
pub use handshake::{HandshakeError, REFUSAL, begins_handshake, handshake};
pub use handshake_turns::HandshakeTurns;
pub use server_config::NodeProtocol;
pub use server_tls::{ServerTls, TlsService};
