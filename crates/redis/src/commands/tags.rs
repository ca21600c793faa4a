//! LARDER.TAG and LARDER.CLEARTAG: what is in memory, by tag. They concern Larder only, also in
//! front of a source.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, SYNTAX},
    session::Backend,
};
use bytes::Bytes;
use larder_core::read::{check_tags, too_many_tags};
use larder_engine::Tier;
use larder_ring::peer::ClearScope;
use larder_store::clock;
use std::cell::Cell;

/// The other nodes cannot be told within one step.
const CLEAR_NOT_QUEUED: CommandError = CommandError::Static(
    "ERR LARDER.CLEARTAG is not available in a transaction where nodes share keys (peers): it clears at all of them",
);
/// The copies of the keys that a transaction writes are not there before it has ended.
const TAG_NOT_QUEUED: CommandError = CommandError::Static(
    "ERR LARDER.TAG is not available in a transaction on a disk store: it tags the copy in memory, which is made when the transaction has ended",
);

/// Refuses what could not be done at EXEC.
pub(crate) fn check_queued(call: &CommandContext<'_>) -> Result<(), CommandError> {
    match call.command.name {
        "larder.cleartag" if call.group().peers.is_some() => Err(CLEAR_NOT_QUEUED),
        "larder.tag" if call.session.backend == Backend::LocalStore => Err(TAG_NOT_QUEUED),
        _ => Ok(()),
    }
}

/// LARDER.TAG key tag [tag …]
pub(crate) fn tag(call: &mut CommandContext<'_>) -> Done {
    tag_on(call, &mut call.cache().tier())?;
    Ok(Flow::Done)
}

/// LARDER.TAG through a tier, whose locks may be held.
pub(crate) fn tag_on(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    call.check_keys()?;
    let tags: Vec<&[u8]> = call.args.from(2).collect();
    check(&tags)?;
    let is_held = match call.session.in_source_database() {
        true => tier.add_tags(call.key(1), &tags, call.now),
        // What is in memory is of the source's own database.
        false => Ok(false),
    };
    // Each tag was checked by itself: there are too many together.
    let is_held = is_held.map_err(|_| too_many())?;
    call.integer(i64::from(is_held))
}

/// `LARDER.CLEARTAG tag [SOFT]`
pub(crate) fn clear_tag(call: &mut CommandContext<'_>) -> Done {
    clear_of(call)?;
    if call.group().peers.is_some() {
        return call.alone();
    }
    clear_tag_on(call, &mut call.cache().tier())?;
    Ok(Flow::Done)
}

/// LARDER.CLEARTAG through a tier, at this node alone.
pub(crate) fn clear_tag_on(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let (tag, soft) = clear_of(call)?;
    let carried = tier.clear_tag(tag, soft, call.now);
    call.integer(carried as i64)
}

/// LARDER.CLEARTAG where nodes share the keys: clears at all nodes. The reply counts the entries that
/// carried the tag at this one.
pub(crate) async fn clear_tag_everywhere(call: &mut CommandContext<'_>) -> Done {
    let (tag, soft) = clear_of(call)?;
    let (scope, carried) = (ClearScope::Tag(Bytes::copy_from_slice(tag)), Cell::new(0));
    let clear = || carried.set(carried.get().max(call.cache().tier().clear_tag(tag, soft, clock::now())));
    match &call.group().peers {
        Some(peers) => peers.clear_everywhere(scope, soft, clear).await?,
        None => clear(),
    }
    call.integer(carried.get() as i64)
}

/// The tag, and whether what carries it may still be served stale.
fn clear_of<'c>(call: &CommandContext<'c>) -> Result<(&'c [u8], bool), CommandError> {
    let tag = call.arg(1);
    check(&[tag])?;
    match call.args.get(2) {
        None => Ok((tag, false)),
        Some(soft) if call.args.len() == 3 && soft.eq_ignore_ascii_case(b"SOFT") => Ok((tag, true)),
        Some(_) => Err(SYNTAX),
    }
}

pub(super) fn check(tags: &[&[u8]]) -> Result<(), CommandError> {
    check_tags(tags).map_err(|limit| CommandError::from(format!("ERR {limit}")))
}

fn too_many() -> CommandError {
    CommandError::from(format!("ERR {}", too_many_tags()))
}
