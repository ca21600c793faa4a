//! The program: sockets and threads ([`net`]), and the command line ([`cli`]).
pub mod cli;
pub mod net;
