//! Commands from end to end, without sockets of our own: what they answer, alone and beside a real redis-server.
mod differential;
mod forwarded;
mod gets;
mod kept;
mod relayed;
mod replies;
mod stored;
mod support;
mod tracked;

pub(in crate::dispatch) use support::Redis;
