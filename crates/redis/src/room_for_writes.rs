//! Room for large writes: the memory tier evicts in steps before it takes the value, and other
//! connections have their turns in between. To evict 200 MB of small entries takes over a second.
use super::{backend_kind::Backend, command::Flags, command_context::CommandContext};

/// Arguments of this length in all are large.
const LARGE: usize = 1 << 20;

/// Whether the command must run alone to make room first.
#[inline]
pub(super) fn is_needed(call: &CommandContext<'_>) -> bool {
    call.args.span() >= LARGE
        && call.session.backend == Backend::Memory
        && call.command.flags.has(Flags::DENYOOM)
        && !call.nested
        && reserve(call).is_some_and(|_reservation| call.cache().is_shrinking())
}

/// Evicts what the command's arguments will take the place of.
pub(super) async fn make(call: &CommandContext<'_>) {
    let Some(_reservation) = reserve(call) else { return };
    while call.cache().shrink(call.now).is_some() {
        tokio::task::yield_now().await;
    }
}

fn reserve(call: &CommandContext<'_>) -> Option<larder_engine::Reservation> {
    let cache = &call.group().cache;
    cache.reserve(call.command.keys.of(call.args).map(|key| cache.key(key)), call.args.span())
}
