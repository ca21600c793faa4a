//! The server from outside: the real binary, real sockets, a real redis-server behind it.

use crate::{common, differential::resp, innocent, larder};

mod access;
mod blocking;
mod broken_replies;
mod buffers;
mod client_pause;
mod clock_steps;
mod connections;
mod dedicated_connections;
mod drain;
mod emulated_cluster;
mod identity;
mod innocent_bystanders;
mod json_examples;
mod keyspace_events;
mod maintenance_notifications;
mod memory_bound;
mod newer_commands;
mod open_files;
mod other_protocols;
mod passthrough;
mod password;
mod pipeline;
mod pubsub;
mod shards;
mod slow_commands;
mod startup;
mod subscribed_names;
mod throttle;
mod tracking;
mod transactions;
