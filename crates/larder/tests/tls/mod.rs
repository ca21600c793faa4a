//! TLS as other programs see it: curl, redis-cli, redis-py and openssl against the listeners;
//! peers, replicas and the command line.

use crate::{common, larder};

pub mod certificates;
mod client_certificates;
mod client_commands;
mod client_users;
mod files;
mod handshakes;
mod listeners;
mod nodes;
pub mod programs;
mod replicas;
