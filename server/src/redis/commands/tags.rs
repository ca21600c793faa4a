//! LARDER.TAG and LARDER.CLEARTAG: what is in memory, by tag. They concern Larder only, also in front of a source.
use crate::{
    read::{check_tags, too_many_tags},
    redis::{
        command_context::CommandContext,
        command_error::{CommandError, SYNTAX},
        command_flow::Flow,
    },
};
type Done = Result<Flow, CommandError>;

/// LARDER.TAG key tag [tag …]
pub(in crate::redis) fn tag(call: &mut CommandContext<'_>) -> Done {
    call.check_keys()?;
    let tags: Vec<&[u8]> = call.args.from(2).collect();
    check(&tags)?;
    let is_held = match call.session.in_source_database() {
        true => call.cache().tier().add_tags(call.key(1), &tags, call.now),
        // What is in memory is of the source's own database.
        false => Ok(false),
    };
    // Each tag was checked by itself: there are too many together.
    let is_held = is_held.map_err(|_| too_many())?;
    call.reply.integer(i64::from(is_held));
    Ok(Flow::Done)
}

/// `LARDER.CLEARTAG tag [SOFT]`
pub(in crate::redis) fn clear_tag(call: &mut CommandContext<'_>) -> Done {
    let tag = call.arg(1);
    check(&[tag])?;
    let soft = match call.args.get(2) {
        None => false,
        Some(soft) if call.args.len() == 3 && soft.eq_ignore_ascii_case(b"SOFT") => true,
        Some(_) => return Err(SYNTAX),
    };
    let carried = call.cache().tier().clear_tag(tag, soft, call.now);
    call.reply.integer(carried as i64);
    Ok(Flow::Done)
}

/// The limits of tags.
pub(super) fn check(tags: &[&[u8]]) -> Result<(), CommandError> {
    check_tags(tags).map_err(|limit| CommandError::Owned(format!("ERR {limit}").into_bytes()))
}

fn too_many() -> CommandError {
    CommandError::Owned(format!("ERR {}", too_many_tags()).into_bytes())
}
