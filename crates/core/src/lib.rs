//! What all doors do the same way: reads that may miss and writes ([`read`]), who is connected
//! ([`clients`]), [`snapshot`]s, what is built once and passed down ([`app`]), and what every request must
//! pass ([`gate`]), and the loop of a [`connection`].
pub mod app;
pub mod clients;
pub mod connection;
pub mod gate;
pub mod read;
pub mod snapshot;
