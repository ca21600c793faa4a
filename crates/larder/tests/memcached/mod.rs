//! The memcached door from outside: beside Debian's memcached 1.6, in front of sources, with users,
//! and under input that no client sends.
use crate::{common, larder};

mod attacks;
mod differential;
mod flushes;
mod sources;
mod table;
mod users;
mod wire;
