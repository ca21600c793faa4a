//! Asks a Redis what its users may do (`ACL GETUSER`), with `auth = "passthrough"`.
use larder_base::identity::{RightsAnswer, UpstreamRights, User, UserRights};
use larder_core::app::Worker;
use larder_proto::resp::{View, encode, view};
use larder_source::SourceError;
use larder_store::clock;
use std::{rc::Rc, slice, sync::Arc};
use tokio::time::sleep;

/// Asks for the rights of all users that clients have, as often as answers would get too old
/// otherwise. Ends with the worker.
pub async fn keep_asking(worker: Rc<Worker>) {
    let Some(all) = worker.app.upstream_rights.clone() else { return };
    let Some(interval) = all.interval() else { return };
    loop {
        sleep(interval).await;
        learn(&worker, &all, &all.in_use()).await;
    }
}

/// Asks for the rights of all users that clients have, and of `default`. Waits for `source-timeout`
/// at most.
pub async fn learn_all(worker: &Worker) {
    if let Some(all) = &worker.app.upstream_rights {
        learn(worker, all, &all.in_use()).await;
    }
}

/// Asks for these users' rights.
pub(crate) async fn learn(worker: &Worker, all: &UpstreamRights, users: &[Arc<UserRights>]) {
    // While Redis cannot be asked, the answers that are there get too old by themselves. What has
    // changed meanwhile is asked for the next time.
    let _ = try_learn(worker, all, users).await;
}

/// Asks for the rights of one user, again if users were changed meanwhile.
///
/// # Errors
/// Redis cannot be asked.
pub async fn learn_one(worker: &Worker, rights: &Arc<UserRights>) -> Result<(), SourceError> {
    match &worker.app.upstream_rights {
        Some(all) => {
            while !try_learn(worker, all, slice::from_ref(rights)).await? {}
            Ok(())
        }
        None => Ok(()),
    }
}

/// False: users were changed meanwhile.
async fn try_learn(worker: &Worker, all: &UpstreamRights, users: &[Arc<UserRights>]) -> Result<bool, SourceError> {
    let Some(server) = worker.groups.default().source.as_redis() else { return Ok(true) };
    let (asked, mut all_count) = (all.question(clock::now()), true);
    let commands: Vec<u8> =
        users.iter().flat_map(|rights| encode(&[b"ACL", b"GETUSER", rights.name.as_bytes()])).collect();
    let replies = server.relay(commands.into(), users.len(), false).await?;
    for (rights, reply) in users.iter().zip(replies.iter()) {
        let answer = answer(worker, &rights.name, reply).unwrap_or_else(|reason| {
            if all.may_warn() {
                tracing::warn!(user = %rights.name, %reason, "the source does not tell what a user may do, so all commands go there (ACL GETUSER, which Larder's own user must be allowed)");
            }
            RightsAnswer::Unknown
        });
        all_count &= all.learn(rights, asked, answer);
    }
    Ok(all_count)
}

/// What a reply to `ACL GETUSER` says; it is one array of names and values, in turn.
///
/// # Errors
/// The reply, or a part of it, is not understood.
fn answer(worker: &Worker, name: &str, reply: &[u8]) -> Result<RightsAnswer, String> {
    let mut parts = match view(reply) {
        Ok(View::Null) => return Ok(RightsAnswer::Nobody),
        Ok(View::Array(parts)) => parts,
        _ => return Err(String::from_utf8_lossy(&reply[..reply.len().min(200)]).escape_debug().to_string()),
    };
    let (mut flags, mut hashes, mut selectors) = (Vec::new(), Vec::new(), Vec::new());
    let mut root = Fields::default();
    while let (Some(name), Some(value)) = (parts.next_raw(), parts.next_raw()) {
        match view(name) {
            Ok(View::Bulk(b"flags")) => flags = list(value),
            Ok(View::Bulk(b"passwords")) => hashes = list(value),
            Ok(View::Bulk(b"selectors")) => {
                if let Ok(View::Array(mut each)) = view(value) {
                    while let Some(selector) = each.next_raw() {
                        selectors.push(Fields::read(selector));
                    }
                }
            }
            Ok(View::Bulk(name)) => root.note(name, value),
            _ => {}
        }
    }
    let all = [&root].into_iter().chain(&selectors);
    let all = all.map(|fields| (&fields.commands[..], &fields.keys[..], &fields.channels[..]));
    User::of_getuser(name, flags, hashes, all, worker.app.users.catalog())
        .map(|user| RightsAnswer::User(Arc::new(user)))
        .map_err(|error| error.to_string())
}

/// What one set of rules allows.
#[derive(Default)]
struct Fields {
    commands: Vec<u8>,
    keys: Vec<u8>,
    channels: Vec<u8>,
}
impl Fields {
    fn read(selector: &[u8]) -> Fields {
        let mut fields = Fields::default();
        if let Ok(View::Array(mut parts)) = view(selector) {
            while let (Some(View::Bulk(name)), Some(value)) = (parts.next(), parts.next_raw()) {
                fields.note(name, value);
            }
        }
        fields
    }
    fn note(&mut self, name: &[u8], value: &[u8]) {
        let field = match name {
            b"commands" => &mut self.commands,
            b"keys" => &mut self.keys,
            b"channels" => &mut self.channels,
            _ => return,
        };
        // Redis 6 has lists.
        *field = match view(value) {
            Ok(View::Bulk(text) | View::Simple(text)) => text.to_vec(),
            _ => list(value).join(&b' '),
        };
    }
}

fn list(value: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    if let Ok(View::Array(each) | View::Set(each)) = view(value) {
        for one in each {
            if let View::Bulk(text) | View::Simple(text) = one {
                all.push(text);
            }
        }
    }
    all
}
