//! CLUSTER. Larder is no node of a cluster; with `cluster = "emulated"` it answers like the only one.
//! <https://redis.io/docs/latest/commands/cluster/>
use super::{info::run_id, keyspace::page, scan::WalkPage};
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, NO_CLUSTER, arity, integer, unknown_sub},
};
use larder_config::Address;
use larder_source::{KEY_SLOTS, SourceKind, key_slot};
use std::ops::Bound::{Excluded, Unbounded};

const LAST_SLOT: i64 = KEY_SLOTS as i64 - 1;
/// Keys that are looked at before other clients have a turn.
const STRIDE: usize = 1024;

/// The subcommands that are answered, with the number of their arguments.
const SUBCOMMANDS: [(&str, usize); 11] = [
    ("slots", 0),
    ("shards", 0),
    ("nodes", 0),
    ("info", 0),
    ("myid", 0),
    ("myshardid", 0),
    ("links", 0),
    ("replicas", 1),
    ("keyslot", 1),
    ("countkeysinslot", 1),
    ("getkeysinslot", 2),
];

pub(crate) fn cluster(call: &mut CommandContext<'_>) -> Done {
    if !call.worker.app.settings.emulates_cluster {
        return Err(NO_CLUSTER);
    }
    let name = call.arg(1);
    let Some((name, arguments)) = SUBCOMMANDS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()))
    else {
        return Err(unknown_sub("cluster", name));
    };
    if call.args.len() != 2 + arguments {
        return Err(arity(&format!("cluster|{name}")));
    }
    let id = run_id(call);
    let (host, port) = endpoint(call);
    let reply = &mut call.reply;
    match *name {
        "slots" => {
            reply.array(1);
            reply.array(3);
            reply.integer(0);
            reply.integer(LAST_SLOT);
            reply.array(4);
            reply.bulk(host.as_bytes());
            reply.integer(port.into());
            reply.bulk(id.as_bytes());
            reply.array(0);
        }
        "shards" => {
            reply.array(1);
            reply.map(2);
            reply.bulk(b"slots");
            reply.array(2);
            reply.integer(0);
            reply.integer(LAST_SLOT);
            reply.bulk(b"nodes");
            reply.array(1);
            reply.map(7);
            reply.named("id").bulk(id.as_bytes());
            reply.named("port").integer(port.into());
            reply.named("ip").bulk(host.as_bytes());
            reply.named("endpoint").bulk(host.as_bytes());
            reply.named("role").bulk(b"master");
            reply.named("replication-offset").integer(0);
            reply.named("health").bulk(b"online");
        }
        "nodes" => {
            // The port of the cluster bus, which Larder does not have, is 0.
            let text = format!("{id} {host}:{port}@0 myself,master - 0 0 1 connected 0-{}\n", LAST_SLOT);
            reply.bulk(text.as_bytes());
        }
        "info" => {
            let text = format!(
                "cluster_state:ok\r\ncluster_slots_assigned:{KEY_SLOTS}\r\ncluster_slots_ok:{KEY_SLOTS}\r\ncluster_slots_pfail:0\r\n\
                 cluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n"
            );
            reply.bulk(text.as_bytes());
        }
        "myid" | "myshardid" => reply.bulk(id.as_bytes()),
        "keyslot" => return call.integer(key_slot(call.arg(2)).into()),
        "countkeysinslot" | "getkeysinslot" => return call.alone(),
        // LINKS, REPLICAS: there is no other node.
        _ => reply.array(0),
    }
    Ok(Flow::Done)
}

/// Where the client reached this node: that is where it reaches all slots.
fn endpoint(call: &CommandContext<'_>) -> (String, u16) {
    match &call.session.client.local {
        // An IPv4 address that came to a socket for both versions.
        Address::Ip(address) => (address.ip().to_canonical().to_string(), address.port()),
        // Clients of a Unix socket go on using it: an empty host is the one that they know.
        Address::Unix(_) => (String::new(), 0),
    }
}

/// `CLUSTER COUNTKEYSINSLOT slot`, `CLUSTER GETKEYSINSLOT slot count`. They look at all keys; other
/// clients have turns meanwhile.
pub(crate) async fn keys_in_slot(call: &mut CommandContext<'_>) -> Done {
    let wanted = integer(call.arg(2))?;
    if !(0..=LAST_SLOT).contains(&wanted) {
        return Err(CommandError::Static("ERR Invalid slot"));
    }
    let most = match call.args.get(3) {
        Some(count) => {
            usize::try_from(integer(count)?).map_err(|_| CommandError::Static("ERR Invalid number of keys"))?
        }
        None => 0,
    };
    let (mut count, mut keys) = (0, WalkPage::of(call));
    let mut see = |key: &[u8], keys: &mut WalkPage| {
        if i64::from(key_slot(key)) == wanted {
            if count < most {
                keys.push(key);
            }
            count += 1;
        }
    };
    match call.group().source.kind() {
        SourceKind::Memory => {
            let mut cursor = 0;
            loop {
                let now = call.now;
                cursor = call.cache().tier().scan(cursor, STRIDE, now, |entry| see(entry.key, &mut keys));
                if cursor == 0 {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        SourceKind::Store(store) => {
            let mut start = Unbounded;
            loop {
                let page = page(store, start, Unbounded, STRIDE).await?;
                page.entries.iter().for_each(|(key, _)| see(key, &mut keys));
                let Some(last) = page.next else { break };
                start = Excluded(last);
                tokio::task::yield_now().await;
            }
        }
        _ => return Err(CommandError::Static("ERR the source does not tell which keys a slot has")),
    }
    match call.args.get(3) {
        Some(_) => keys.reply(call),
        None => call.reply.integer(count as i64),
    }
    Ok(Flow::Done)
}
