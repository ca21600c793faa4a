//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR: an upstream Redis tracks what a client reads on the client's dedicated connection;
//! without one, Larder tracks ([`local_tracking`]).
use super::local_tracking;
use crate::{
    clients::Tracks,
    redis::{
        command_context::CommandContext,
        command_error::CommandError,
        flow::{Flow, Later},
        upstream::{redirect::Redirect, requests},
    },
    source::ClientTracking,
};
use larder_proto::resp::{Args, View, encode, view};

type Done = Result<Flow, CommandError>;

/// CLIENT TRACKING
pub(in crate::redis) fn tracking(call: &mut CommandContext<'_>) -> Done {
    begin(call, starts(call), local_tracking::tracking)
}
/// CLIENT CACHING
pub(in crate::redis) fn caching(call: &mut CommandContext<'_>) -> Done {
    begin(call, false, local_tracking::caching)
}
/// CLIENT TRACKINGINFO
pub(in crate::redis) fn info(call: &mut CommandContext<'_>) -> Done {
    begin(call, false, local_tracking::info)
}
/// CLIENT GETREDIR
pub(in crate::redis) fn getredir(call: &mut CommandContext<'_>) -> Done {
    begin(call, false, local_tracking::getredir)
}

fn starts(call: &CommandContext<'_>) -> bool {
    call.arg(2).eq_ignore_ascii_case(b"on")
}

fn begin(call: &mut CommandContext<'_>, starts: bool, local: fn(&mut CommandContext<'_>) -> Done) -> Done {
    let waits = match call.group().source.as_redis() {
        Some(server) if server.client_tracking() == ClientTracking::Server => starts || call.session.upstream.tracking,
        Some(server) if starts && server.client_tracking() == ClientTracking::Nobody => {
            return Err(CommandError::Said(
                "ERR CLIENT TRACKING in front of a cluster needs all changes announced (tracking-prefixes = *)",
            ));
        }
        // What forwarded commands read must be known from the first on.
        Some(server) => starts && server.known_commands().is_none(),
        None => false,
    };
    match waits {
        true => call.alone(),
        // The client does not track, or not there: then the answers are the same everywhere.
        false => local(call),
    }
}

/// CLIENT TRACKING at an upstream Redis.
pub(in crate::redis) fn run_tracking<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        let server = requests::server(call)?;
        if server.client_tracking() != ClientTracking::Server {
            server.commands().await?;
            return local_tracking::tracking(call);
        }
        let starts = starts(call);
        let (encoded, redirect) = match starts {
            true => prepare(call).await?,
            false => (without_redirect(call)?, None),
        };
        let replies = requests::ask(call, encoded).await?;
        if replies[0] == *b"+OK\r\n" {
            call.session.client.about.lock().tracking = starts.then(|| Tracks {
                bcast: is_broadcast(call.args),
                redirect: redirect.as_ref().map_or(0, Redirect::target),
                broken: false,
            });
            call.session.upstream.tracking = starts;
            call.session.upstream.redirect = redirect;
        }
        call.pass_on(&replies);
        Ok(finish(call))
    })
}

/// CLIENT CACHING at an upstream Redis.
pub(in crate::redis) fn run_caching<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        let replies = requests::ask(call, requests::encoded(call.args)).await?;
        call.pass_on(&replies);
        Ok(finish(call))
    })
}

/// CLIENT TRACKINGINFO at an upstream Redis, which knows Larder's connections and not Larder's clients.
pub(in crate::redis) fn run_info<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
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
    })
}

/// CLIENT GETREDIR at an upstream Redis.
pub(in crate::redis) fn run_getredir<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        let replies = requests::ask(call, requests::encoded(call.args)).await?;
        match call.session.upstream.redirect.as_ref().map(Redirect::target) {
            Some(target) => {
                call.session.skip_replies(0, call.reply.output());
                call.reply.integer(target as i64);
            }
            None => call.pass_on(&replies),
        }
        Ok(finish(call))
    })
}

fn finish(call: &mut CommandContext<'_>) -> Flow {
    call.session.release_dedicated();
    call.session.note_subscriptions();
    Flow::Done
}

/// The options of CLIENT TRACKING with their places, without what is said behind them.
fn options(args: Args<'_>) -> impl Iterator<Item = (usize, &[u8])> {
    let mut next = 3;
    std::iter::from_fn(move || {
        let (at, option) = (next, args.get(next)?);
        let valued = option.eq_ignore_ascii_case(b"redirect") || option.eq_ignore_ascii_case(b"prefix");
        next += if valued { 2 } else { 1 };
        Some((at, option))
    })
}

/// Where among the parts of CLIENT TRACKING the client is named that it redirects to; the last, if there are several, of which Redis
/// will complain.
fn place(args: Args<'_>) -> Option<usize> {
    let redirects = options(args).filter(|(_, option)| option.eq_ignore_ascii_case(b"redirect"));
    redirects.map(|(at, _)| at + 1).filter(|at| *at < args.len()).last()
}

/// Is CLIENT TRACKING told to broadcast?
fn is_broadcast(args: Args<'_>) -> bool {
    options(args).any(|(_, option)| option.eq_ignore_ascii_case(b"bcast"))
}

/// Prepares CLIENT TRACKING ON: what is to be sent to Redis, and the redirection that it begins, if it is taken.
async fn prepare(call: &CommandContext<'_>) -> Result<(Vec<u8>, Option<Redirect>), CommandError> {
    let Some(place) = place(call.args) else { return Ok((requests::encoded(call.args), None)) };
    let target = local_tracking::target(call, call.arg(place))?;
    let carrier = requests::server(call)?.open_dedicated(call.args, true).await?;
    let replies = carrier.relay(encode(&[b"CLIENT", b"ID"]).into(), 1, true).await?;
    let Ok(View::Integer(number)) = view(&replies[0]) else {
        return Err(CommandError::Told(
            replies[0].strip_prefix(b"-").unwrap_or(b"ERR no CLIENT ID").trim_ascii().to_vec(),
        ));
    };
    let number = number.to_string();
    let mut parts: Vec<&[u8]> = call.args.from(0).collect();
    parts[place] = number.as_bytes();
    let (client, backlog) = (call.session.client.clone(), call.worker.app.backlog.clone());
    Ok((encode(&parts), Some(Redirect::begin(carrier, client, target, backlog))))
}

/// What is to be sent for CLIENT TRACKING OFF, where REDIRECT has only to name a client that there is.
fn without_redirect(call: &CommandContext<'_>) -> Result<Vec<u8>, CommandError> {
    let Some(place) = place(call.args) else { return Ok(requests::encoded(call.args)) };
    local_tracking::target(call, call.arg(place))?;
    let mut parts: Vec<&[u8]> = call.args.from(0).collect();
    parts.drain(place - 1..=place);
    Ok(encode(&parts))
}
