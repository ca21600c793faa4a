//! What both doors do the same way: reads that may miss and writes ([`read`]), who is connected
//! ([`clients`]), [`snapshot`]s, and what is built once and passed down ([`app`]).
pub mod app;
pub mod clients;
pub mod read;
pub mod snapshot;
