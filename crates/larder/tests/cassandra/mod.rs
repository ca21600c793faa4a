//! Cassandra as a source, on real nodes.
mod commands;
mod copies;
mod driver;
mod faults;
mod history;
mod judged_clients;
mod named_columns;
mod networks;
mod node_watch;
mod refusals;
pub mod server;
mod three_nodes;
mod transactions;

use crate::common::{Client, Reply};

/// A reply as text.
fn text(client: &mut Client, command: &[&str]) -> String {
    shown(&client.command(command))
}

fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(Some(value)) => String::from_utf8_lossy(value).into_owned(),
        Reply::Bulk(None) => "(nil)".to_owned(),
        Reply::Simple(text) | Reply::Error(text) => text.clone(),
        Reply::Int(number) => number.to_string(),
        Reply::Array(all) => format!("{all:?}"),
    }
}
