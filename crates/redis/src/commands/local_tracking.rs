//! CLIENT TRACKING done by Larder: without a source, and with a source that cannot give each client
//! a dedicated connection. The [tracking table](larder_core::clients::Tracking) has the copies that
//! clients hold. Invalidations go to the clients' push inboxes.
//!
//! Invariants:
//! - Between a client's read of a key and the next change of that key, the client is in the table:
//!   both happen under the lock of the key's shard.
//! - A client that changes a key is answered only when the invalidation is in the inbox of every
//!   client that must get it.
//! - A client gets the invalidations that it caused after the reply to its command, because the
//!   inbox is read between commands only.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, SYNTAX, integer},
    commands::subscriptions::check_name,
    tracking_client::{Choice, Tracker, overlapping},
};
use larder_core::clients::{Client, TrackingMode};
use larder_engine::ListenerKind;
use larder_source::ClientTracking;
use std::{collections::BTreeSet, sync::Arc};

/// The options of CLIENT TRACKING.
struct Asked<'a> {
    mode: TrackingMode,
    choice: Choice,
    both: bool,
    redirect: Option<Arc<Client>>,
    prefixes: Vec<&'a [u8]>,
}

pub(crate) fn getredir(call: &mut CommandContext<'_>) -> Done {
    let redirect = call.session.tracker.as_ref().map_or(-1, |tracker| tracker.redirect as i64);
    call.integer(redirect)
}

/// `CLIENT TRACKING ON|OFF [REDIRECT id] [BCAST] [PREFIX prefix]… [OPTIN] [OPTOUT] [NOLOOP]`
pub(crate) fn tracking(call: &mut CommandContext<'_>) -> Done {
    let asked = Asked::parse(call)?;
    if call.arg(2).eq_ignore_ascii_case(b"on") {
        asked.check(call.session.tracker.as_deref())?;
        start(call, asked);
    } else if call.arg(2).eq_ignore_ascii_case(b"off") {
        call.session.change().tracker = None;
    } else {
        return Err(SYNTAX);
    }
    call.ok()
}

impl<'a> Asked<'a> {
    fn parse(call: &CommandContext<'a>) -> Result<Asked<'a>, CommandError> {
        let mut asked = Asked {
            mode: TrackingMode::default(),
            choice: Choice::All,
            both: false,
            redirect: None,
            prefixes: Vec::new(),
        };
        let choose = |choice, asked: &mut Asked<'a>| {
            asked.both |= asked.choice != Choice::All && asked.choice != choice;
            asked.choice = choice;
        };
        let mut parts = call.args.from(3);
        while let Some(part) = parts.next() {
            match part.to_ascii_lowercase().as_slice() {
                b"redirect" if parts.len() > 0 => {
                    if asked.redirect.is_some() {
                        return Err(CommandError::Static("ERR A client can only redirect to a single other client"));
                    }
                    let source = &call.group().source;
                    match source.as_redis() {
                        // The server tracks. This is OFF, from a client for which Larder does not track.
                        Some(server) if server.client_tracking() == ClientTracking::Server => {}
                        Some(_) => {
                            // On another connection an invalidation may come before the reply that it concerns.
                            return Err(CommandError::Static("ERR REDIRECT is not available in front of a cluster"));
                        }
                        None if source.reads_through() => {
                            // The same holds here: the value was being loaded when the read was noted.
                            return Err(CommandError::Static(
                                "ERR REDIRECT is not available with a disk store: use RESP3",
                            ));
                        }
                        None => {}
                    }
                    asked.redirect = Some(target(call, parts.next().unwrap_or_default())?);
                }
                b"prefix" if parts.len() > 0 => {
                    let prefix = parts.next().unwrap_or_default();
                    check_name(call, "a prefix", prefix)?;
                    asked.prefixes.push(prefix);
                }
                b"bcast" => asked.mode.bcast = true,
                b"noloop" => asked.mode.noloop = true,
                b"optin" => choose(Choice::OptIn, &mut asked),
                b"optout" => choose(Choice::OptOut, &mut asked),
                _ => return Err(SYNTAX),
            }
        }
        Ok(asked)
    }

    fn check(&self, before: Option<&Tracker>) -> Result<(), CommandError> {
        if !self.mode.bcast && !self.prefixes.is_empty() {
            return Err(CommandError::Static("ERR PREFIX option requires BCAST mode to be enabled"));
        }
        if before.is_some_and(|before| before.mode.bcast != self.mode.bcast) {
            return Err(CommandError::Static(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
            ));
        }
        if self.mode.bcast && self.choice != Choice::All {
            return Err(CommandError::Static("ERR OPTIN and OPTOUT are not compatible with BCAST"));
        }
        if self.both {
            return Err(CommandError::Static("ERR You can't specify both OPTIN mode and OPTOUT mode"));
        }
        let turned = |before: &Tracker| {
            self.choice != Choice::All && before.choice != Choice::All && before.choice != self.choice
        };
        if before.is_some_and(turned) {
            return Err(CommandError::Static(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
            ));
        }
        let mut provided = BTreeSet::new();
        for prefix in &self.prefixes {
            if let Some(old) = before.and_then(|before| overlapping(&before.prefixes, prefix)) {
                return Err(overlaps(prefix, "an existing", old));
            }
            if let Some(other) = overlapping(&provided, prefix) {
                return Err(overlaps(other, "another provided", prefix));
            }
            provided.insert(Box::from(*prefix));
        }
        Ok(())
    }
}

/// The client that REDIRECT names.
pub(super) fn target(call: &CommandContext<'_>, id: &[u8]) -> Result<Arc<Client>, CommandError> {
    let id = u64::try_from(integer(id)?).ok();
    let client = id.and_then(|id| call.worker.app.clients.get(id));
    client.ok_or(CommandError::Static("ERR The client ID you want redirect to does not exist"))
}

fn overlaps(prefix: &[u8], which: &str, other: &[u8]) -> CommandError {
    let parts: [&[u8]; 7] = [
        b"ERR Prefix '",
        prefix,
        b"' overlaps with ",
        which.as_bytes(),
        b" prefix '",
        other,
        b"'. Prefixes for a single client must not overlap.",
    ];
    CommandError::Owned(parts.concat())
}

fn start(call: &mut CommandContext<'_>, asked: Asked<'_>) {
    let (tracking, client) = (&call.worker.app.tables.tracking, call.session.client.clone());
    // BCAST without a prefix means all keys.
    let empty: &[&[u8]] = &[b""];
    let added = if asked.mode.bcast && asked.prefixes.is_empty() { empty } else { &asked.prefixes };
    let tracker = call.session.change().tracker.take();
    let mut tracker = tracker.unwrap_or_else(|| {
        Box::new(Tracker {
            tracking: tracking.clone(),
            client: client.clone(),
            mode: asked.mode,
            choice: asked.choice,
            redirect: 0,
            prefixes: BTreeSet::new(),
            bytes: 0,
            exception: false,
            _listening: call.group().cache.listen(ListenerKind::Tracking),
        })
    });
    tracker.mode = asked.mode;
    tracker.choice = asked.choice;
    tracker.redirect = asked.redirect.as_ref().map_or(0, |target| target.id);
    for prefix in added {
        if tracker.prefixes.insert((*prefix).into()) {
            tracker.bytes += 2 * prefix.len() + 256;
        }
    }
    tracking.add(&client, asked.mode, asked.redirect, added.iter().copied());
    call.session.change().tracker = Some(tracker);
}

/// CLIENT CACHING YES|NO
pub(crate) fn caching(call: &mut CommandContext<'_>) -> Done {
    let answer = call.arg(2);
    let mut state = call.session.change();
    let Some(tracker) = &mut state.tracker else {
        return Err(CommandError::Static(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    let (mode, why) = match answer.to_ascii_lowercase().as_slice() {
        b"yes" => (Choice::OptIn, "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."),
        b"no" => (Choice::OptOut, "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."),
        _ => return Err(SYNTAX),
    };
    if tracker.choice != mode {
        return Err(CommandError::Static(why));
    }
    tracker.exception = true;
    drop(state);
    call.ok()
}

pub(crate) fn info(call: &mut CommandContext<'_>) -> Done {
    let mut flags = Vec::new();
    let (none, mut redirect) = (BTreeSet::new(), -1);
    let mut prefixes = &none;
    match &call.session.tracker {
        None => flags.push("off"),
        Some(tracker) => {
            flags.push("on");
            flags.extend(tracker.mode.bcast.then_some("bcast"));
            let (choice, exception) = match tracker.choice {
                Choice::All => (None, None),
                Choice::OptIn => (Some("optin"), Some("caching-yes")),
                Choice::OptOut => (Some("optout"), Some("caching-no")),
            };
            flags.extend(choice);
            flags.extend(exception.filter(|_| tracker.exception));
            flags.extend(tracker.mode.noloop.then_some("noloop"));
            flags.extend(tracker.client.is_redirection_broken().then_some("broken_redirect"));
            (redirect, prefixes) = (tracker.redirect as i64, &tracker.prefixes);
        }
    }
    let reply = &mut call.reply;
    reply.map(3);
    reply.named("flags").set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.named("redirect").integer(redirect);
    reply.named("prefixes").array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(Flow::Done)
}
