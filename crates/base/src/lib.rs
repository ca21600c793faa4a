//! What every room uses, and no protocol or source: the account of all [`buffers`], the life of the
//! process ([`lifecycle`]), counters, metrics and logs ([`telemetry`]), both sides of [`tls`],
//! connections to other servers ([`outbound`]), and who is calling ([`identity`]). [`special`] says
//! which of it is on.
pub mod buffers;
pub mod identity;
pub mod lifecycle;
pub mod outbound;
pub mod special;
pub mod telemetry;
pub mod tls;
