//! Primary and replicas: REPLICAOF, ROLE, WAIT, INFO's section, and the command with which a
//! replica asks for its stream.
use crate::{
    auth,
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, NO_AUTH, SYNTAX, integer},
};
use larder_base::identity::Credential;
use larder_config::PrimaryAddress;
use larder_engine::Millis;
use larder_ring::replica::{LinkState, ReplicaRequest};
use std::{
    fmt::Display,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// Longest name of a host that is dialled (RFC 1035).
const LONGEST_HOST: usize = 253;

const VERSION: &[u8] = b"1";

/// REPLICAOF host port, REPLICAOF NO ONE, SLAVEOF …
pub(crate) fn replicaof(call: &mut CommandContext<'_>) -> Done {
    let (host, port) = (call.arg(1), call.arg(2));
    if host.len() > LONGEST_HOST {
        let text = format!("ERR the name of a host has at most {LONGEST_HOST} bytes");
        return Err(CommandError::from(text));
    }
    let replication = &call.worker.app.replication;
    let primary = match host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        true => None,
        false => Some(PrimaryAddress {
            host: std::str::from_utf8(host).map_err(|_| SYNTAX)?.to_owned(),
            port: u16::try_from(integer(port)?)
                .ok()
                .filter(|port| *port > 0)
                .ok_or(CommandError::Static("ERR Invalid master port"))?,
            // The command has no words for it: as this process was told to reach its primary.
            tls: call.worker.app.settings.replication.replica_of.as_ref().and_then(|of| of.tls.clone()),
        }),
    };
    if let (Some(hindrance), Some(_)) = (replication.hindrance(), &primary) {
        return Err(cannot(hindrance));
    }
    let shown = primary.as_ref().map_or("none".to_owned(), PrimaryAddress::to_string);
    if replication.follow(primary) {
        tracing::warn!(primary = shown, client = %call.session.client.peer, "REPLICAOF: the primary of this process changed");
        call.reply.ok();
    } else {
        // Redis tells a client that nothing changed.
        call.reply.simple(if replication.is_read_only() { "OK Already connected to specified master" } else { "OK" });
    }
    Ok(Flow::Done)
}

/// LARDER.REPLICATE version secret port id records: the connection becomes the stream of changes.
pub(crate) fn replicate(call: &mut CommandContext<'_>) -> Done {
    let replication = &call.worker.app.replication;
    let has_secret = call.worker.app.settings.replication.secret.is_some();
    if has_secret {
        auth::may_try(call, Credential::ReplicationSecret)?;
    }
    if !replication.admits(call.arg(2), call.session.authenticated) {
        if !has_secret {
            return Err(NO_AUTH);
        }
        auth::note_failed(call, Credential::ReplicationSecret, b"");
        return Err(CommandError::Static("WRONGPASS the secret is not replication-secret of this primary"));
    }
    if let Some(hindrance) = replication.hindrance() {
        return Err(cannot(hindrance));
    }
    if call.arg(1) != VERSION {
        return Err(CommandError::Static("ERR this primary speaks version 1 of the replication stream"));
    }
    if let Some(primary) = replication.primary() {
        let text = format!("ERR this server is a replica itself: replicate from its primary, {primary}");
        return Err(CommandError::from(text));
    }
    let text = |index| std::str::from_utf8(call.arg(index)).ok();
    let (port, id) =
        (text(3).and_then(|port| port.parse().ok()), text(4).and_then(|id| u64::from_str_radix(id, 16).ok()));
    let (records, rest) = call.arg(5).as_chunks();
    let (Some(port), Some(id), []) = (port, id, rest) else { return Err(SYNTAX) };
    // Another number cannot be resumed from, and a stream lasts long.
    let records = if records.len() == replication.positions() { records } else { &[] };
    let records = records.iter().map(|record| u64::from_le_bytes(*record)).collect();
    call.reply.simple("LARDER");
    call.session.replica = Some(Box::new(ReplicaRequest { port, id, records }));
    Ok(Flow::Replicate)
}

/// LARDER.FORWARDED: what the connection carries are writes of a replica's clients, which go no
/// further. Gives the number of changes so far, by which the replica tells when it has them; they
/// leave at once.
pub(crate) fn forwarded(call: &mut CommandContext<'_>) -> Done {
    call.session.is_forwarded = true;
    let replication = &call.worker.app.replication;
    if let Some(primary) = replication.primary() {
        let text = format!("READONLY this server is a replica itself: forward to its primary, {primary}");
        return Err(CommandError::from(text));
    }
    call.simple(&replication.place().to_string())
}

fn cannot(hindrance: &str) -> CommandError {
    CommandError::from(format!("ERR this server cannot take part in replication: {hindrance}"))
}

pub(crate) fn role(call: &mut CommandContext<'_>) -> Done {
    let replication = &call.worker.app.replication;
    match replication.primary().filter(|_| replication.is_read_only()) {
        Some(primary) => {
            call.reply.array(5);
            call.reply.bulk(b"slave");
            call.reply.bulk(primary.host.as_bytes());
            call.reply.integer(i64::from(primary.port));
            call.reply.bulk(match replication.link.state() {
                LinkState::Down | LinkState::Connecting if replication.link.is_up() => b"connected",
                LinkState::Down => b"connect",
                LinkState::Connecting => b"connecting",
                LinkState::Copying => b"sync",
                LinkState::Connected => b"connected",
            });
            call.reply.integer(replication.link.changes() as i64);
        }
        None => {
            let replicas = replication.replicas.list();
            call.reply.array(3);
            call.reply.bulk(b"master");
            call.reply.integer(replication.changes() as i64);
            call.reply.array(replicas.len());
            for replica in replicas {
                call.reply.array(3);
                call.reply.bulk(replica.ip.to_string().as_bytes());
                call.reply.bulk(replica.port.to_string().as_bytes());
                call.reply.bulk(replica.acknowledged().to_string().as_bytes());
            }
        }
    }
    Ok(Flow::Done)
}

/// What WAIT asks for: a number of replicas, and how long at most.
fn wait_of(call: &CommandContext<'_>) -> Result<(usize, Option<Duration>), CommandError> {
    let replicas = integer(call.arg(1))?;
    let limit =
        integer(call.arg(2)).map_err(|_| CommandError::Static("ERR timeout is not an integer or out of range"))?;
    if limit < 0 {
        return Err(CommandError::Static("ERR timeout is negative"));
    }
    let limit = (limit > 0).then(|| Duration::from_millis(limit as u64));
    Ok((usize::try_from(replicas).unwrap_or(0), limit))
}

pub(crate) fn wait(call: &mut CommandContext<'_>) -> Done {
    let (wanted, _) = wait_of(call)?;
    let replication = &call.worker.app.replication;
    if replication.is_read_only() {
        return Err(CommandError::Static(
            "ERR WAIT cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated.",
        ));
    }
    let count = replication.replicas.count_with(replication.changes());
    let has_none = replication.hindrance().is_some();
    if !call.nested && !has_none && count < wanted {
        return call.alone();
    }
    call.integer(count as i64)
}

pub(crate) async fn run_wait(call: &mut CommandContext<'_>) -> Done {
    let (wanted, limit) = wait_of(call)?;
    let blocked = &call.session.client.blocked;
    blocked.store(true, Relaxed);
    let replication = Arc::clone(&call.worker.app.replication);
    let count = replication.wait(wanted, limit).await;
    blocked.store(false, Relaxed);
    call.session.times.restart();
    call.integer(count as i64)
}

/// INFO's section, in Redis's names. Its offsets count changes.
pub(super) fn info_lines(call: &CommandContext<'_>, run_id: &str) -> Vec<(String, String)> {
    let (replication, now) = (&call.worker.app.replication, call.now);
    let mut lines = Vec::new();
    let mut line = |name: &str, value: &dyn Display| lines.push((name.to_owned(), value.to_string()));
    let primary = replication.primary().filter(|_| replication.is_read_only());
    line("role", &if primary.is_some() { "slave" } else { "master" });
    let own = match &primary {
        Some(primary) => {
            let (link, seconds) = (&replication.link, |seconds: Option<u64>| seconds.map_or(-1, |s| s as i64));
            line("master_host", &primary.host);
            line("master_port", &primary.port);
            line("master_link_status", &if link.is_up() { "up" } else { "down" });
            line("master_last_io_seconds_ago", &seconds(link.silent_for(now)));
            line("master_sync_in_progress", &u8::from(link.state() == LinkState::Copying));
            line("slave_read_repl_offset", &link.changes());
            line("slave_repl_offset", &link.changes());
            if !link.is_up() {
                line("master_link_down_since_seconds", &seconds(link.down_for(now)));
            }
            if let Some(error) = link.error() {
                line("master_link_error", &error.replace(['\r', '\n'], " "));
            }
            line("slave_priority", &100);
            line("slave_read_only", &1);
            line("replica_announced", &1);
            link.changes()
        }
        None => replication.changes(),
    };
    let replicas = replication.replicas.list();
    line("connected_slaves", &replicas.len());
    for (number, replica) in replicas.iter().enumerate() {
        let state = if replica.is_copying() { "send_bulk" } else { "online" };
        let lag = lag(now, replica.acknowledged_at());
        line(
            &format!("slave{number}"),
            &format_args!(
                "ip={},port={},state={state},offset={},lag={lag}",
                replica.ip,
                replica.port,
                replica.acknowledged()
            ),
        );
    }
    line("master_failover_state", &"no-failover");
    line("master_replid", &run_id);
    line("master_replid2", &"0".repeat(40));
    line("master_repl_offset", &own);
    line("second_repl_offset", &-1);
    line("repl_backlog_active", &u8::from(replication.log_id() != 0));
    line("repl_backlog_size", &call.worker.app.settings.replication.backlog);
    lines
}

/// Whole seconds since then.
fn lag(now: Millis, then: Millis) -> u64 {
    now.saturating_sub(then) / 1000
}
