//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR. An upstream Redis tracks a client's reads
//! on the client's dedicated connection. Without an upstream, Larder tracks ([`local_tracking`]).
use super::local_tracking;
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow},
    upstream::{requests, tracking_redirect::TrackingRedirect},
};
use larder_core::clients::Tracks;
use larder_proto::resp::{Args, View, encode, view};
use larder_source::ClientTracking;

pub(crate) fn tracking(call: &mut CommandContext<'_>) -> Done {
    begin(call, starts(call), local_tracking::tracking)
}
pub(crate) fn caching(call: &mut CommandContext<'_>) -> Done {
    begin(call, false, local_tracking::caching)
}
pub(crate) fn info(call: &mut CommandContext<'_>) -> Done {
    begin(call, false, local_tracking::info)
}
pub(crate) fn getredir(call: &mut CommandContext<'_>) -> Done {
    begin(call, false, local_tracking::getredir)
}

fn starts(call: &CommandContext<'_>) -> bool {
    call.arg(2).eq_ignore_ascii_case(b"on")
}

fn begin(call: &mut CommandContext<'_>, starts: bool, local: fn(&mut CommandContext<'_>) -> Done) -> Done {
    let waits = match call.redis() {
        Some(server) if server.client_tracking() == ClientTracking::Server => starts || call.session.upstream.tracking,
        Some(server) if starts && server.client_tracking() == ClientTracking::Nobody => {
            return Err(CommandError::Static(
                "ERR CLIENT TRACKING in front of a cluster needs all changes announced (tracking-prefixes = *)",
            ));
        }
        // The keys that forwarded commands read must be known from the first command on.
        Some(server) => starts && server.known_commands().is_none(),
        None => false,
    };
    match waits {
        true => call.alone(),
        // The client does not track, or Larder tracks for it. The local answer is right.
        false => local(call),
    }
}

/// CLIENT TRACKING at an upstream Redis.
pub(crate) async fn run_tracking(call: &mut CommandContext<'_>) -> Done {
    let server = requests::own_server(call)?;
    if server.client_tracking() != ClientTracking::Server {
        server.commands().await?;
        return local_tracking::tracking(call);
    }
    let starts = starts(call);
    let (encoded, redirect) = if starts { prepare(call).await? } else { (without_redirect(call)?, None) };
    let replies = requests::ask(call, encoded).await?;
    if replies[0] == *b"+OK\r\n" {
        call.session.client.about.lock().tracking = starts.then(|| Tracks {
            bcast: is_broadcast(call.args),
            redirect: redirect.as_ref().map_or(0, TrackingRedirect::target),
            broken: false,
        });
        call.session.change().upstream.tracking = starts;
        call.session.change().upstream.redirect = redirect;
    }
    call.pass_on(&replies);
    Ok(finish(call))
}

/// CLIENT CACHING at an upstream Redis.
pub(crate) async fn run_caching(call: &mut CommandContext<'_>) -> Done {
    let replies = requests::ask(call, requests::encoded(call.args)).await?;
    call.pass_on(&replies);
    Ok(finish(call))
}

/// CLIENT TRACKINGINFO at an upstream Redis. Redis knows Larder's connections, not Larder's
/// clients.
pub(crate) async fn run_info(call: &mut CommandContext<'_>) -> Done {
    let replies = requests::ask(call, requests::encoded(call.args)).await?;
    match &call.session.upstream.redirect {
        Some(redirect) => {
            let info = redirect.translated(&replies[0], call.session.client.is_redirection_broken());
            call.session.skip_replies(0, call.reply.output());
            call.reply.output().put(info.as_deref().unwrap_or(&replies[0]));
        }
        None => call.pass_on(&replies),
    }
    Ok(finish(call))
}

/// CLIENT GETREDIR at an upstream Redis.
pub(crate) async fn run_getredir(call: &mut CommandContext<'_>) -> Done {
    let replies = requests::ask(call, requests::encoded(call.args)).await?;
    match call.session.upstream.redirect.as_ref().map(TrackingRedirect::target) {
        Some(target) => {
            call.session.skip_replies(0, call.reply.output());
            call.reply.integer(target as i64);
        }
        None => call.pass_on(&replies),
    }
    Ok(finish(call))
}

fn finish(call: &mut CommandContext<'_>) -> Flow {
    call.session.release_dedicated();
    call.session.note_subscriptions();
    Flow::Done
}

/// The options of CLIENT TRACKING with their positions, without the options' values.
fn options(args: Args<'_>) -> impl Iterator<Item = (usize, &[u8])> {
    let mut next = 3;
    std::iter::from_fn(move || {
        let (at, option) = (next, args.get(next)?);
        let valued = option.eq_ignore_ascii_case(b"redirect") || option.eq_ignore_ascii_case(b"prefix");
        next += if valued { 2 } else { 1 };
        Some((at, option))
    })
}

/// The position of the client id after REDIRECT. If there are several, the last one; Redis then
/// refuses the command.
fn place(args: Args<'_>) -> Option<usize> {
    let redirects = options(args).filter(|(_, option)| option.eq_ignore_ascii_case(b"redirect"));
    redirects.map(|(at, _)| at + 1).filter(|at| *at < args.len()).last()
}

/// Whether BCAST is given.
fn is_broadcast(args: Args<'_>) -> bool {
    options(args).any(|(_, option)| option.eq_ignore_ascii_case(b"bcast"))
}

/// Prepares CLIENT TRACKING ON: the command for Redis, and the redirect that begins if Redis
/// accepts it.
async fn prepare(call: &CommandContext<'_>) -> Result<(Vec<u8>, Option<TrackingRedirect>), CommandError> {
    let Some(place) = place(call.args) else { return Ok((requests::encoded(call.args), None)) };
    let target = local_tracking::target(call, call.arg(place))?;
    let carrier = requests::server(call)?.get().open_dedicated(call.args, true).await?;
    let replies = carrier.relay(encode(&[b"CLIENT", b"ID"]).into(), 1, true).await?;
    let Ok(View::Integer(number)) = view(&replies[0]) else {
        return Err(CommandError::Owned(
            replies[0].strip_prefix(b"-").unwrap_or(b"ERR no CLIENT ID").trim_ascii().to_vec(),
        ));
    };
    let number = number.to_string();
    let mut parts: Vec<&[u8]> = call.args.from(0).collect();
    parts[place] = number.as_bytes();
    let (client, backlog) = (call.session.client.clone(), call.worker.app.tables.backlog.clone());
    Ok((encode(&parts), Some(TrackingRedirect::begin(carrier, client, target, backlog))))
}

/// The command for CLIENT TRACKING OFF. A REDIRECT option is checked and left out.
fn without_redirect(call: &CommandContext<'_>) -> Result<Vec<u8>, CommandError> {
    let Some(place) = place(call.args) else { return Ok(requests::encoded(call.args)) };
    local_tracking::target(call, call.arg(place))?;
    let mut parts: Vec<&[u8]> = call.args.from(0).collect();
    parts.drain(place - 1..=place);
    Ok(encode(&parts))
}
