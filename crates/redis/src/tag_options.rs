//! The option `TAG` of SET, where a source keeps the value.
use super::command_error::CommandError;
use larder_proto::resp::Args;

/// Refuses `SET … TAG` where a source keeps the value: a copy that is fetched again has no such
/// tags, so a clear would miss it.
#[cold]
pub(super) fn refuse_tags(args: Args<'_>) -> Result<(), CommandError> {
    match args.from(3).any(|part| part.eq_ignore_ascii_case(b"TAG")) {
        true => Err(CommandError::Static(
            "ERR SET takes no TAG here: the source keeps the value, without tags. LARDER.TAG tags the copy in memory",
        )),
        false => Ok(()),
    }
}
