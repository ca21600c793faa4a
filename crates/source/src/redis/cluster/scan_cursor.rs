//! SCAN over a cluster: the cursor of a client names a master, and that master's own cursor.
use super::key_slot::SLOTS;
use bytes::Bytes;
use larder_proto::resp::{Args, View, encode, parse_u64, view};

/// Bits of a client's cursor for the index of the master (there are at most as many masters as
/// slots). The other bits are that master's own cursor.
const CURSOR_BITS: u32 = SLOTS.ilog2();

/// From `SCAN cursor …`: the index of the master, and its own cursor.
pub(super) fn parse_cursor(args: Args<'_>) -> Option<(usize, u64)> {
    let cursor = parse_u64(args.get(1)?)?;
    Some(((cursor & ((1 << CURSOR_BITS) - 1)) as usize, cursor >> CURSOR_BITS))
}
/// The same `SCAN` with a master's own cursor.
pub(super) fn with_cursor(args: Args<'_>, own: u64) -> Vec<u8> {
    let own = own.to_string();
    let parts: Vec<&[u8]> =
        args.from(0).enumerate().map(|(at, part)| if at == 1 { own.as_bytes() } else { part }).collect();
    encode(&parts)
}

/// The pieces of the reply of the master `index` of `masters`, with the cursor for the client's next
/// call.
pub(super) fn next_cursor(reply: &Bytes, index: usize, masters: usize) -> Vec<Bytes> {
    let rewritten = || {
        let Ok(View::Array(mut values)) = view(reply) else { return None };
        let Some(View::Bulk(own)) = view(values.next_raw()?).ok() else { return None };
        let keys = values.next_raw()?;
        let next = match parse_u64(own)? {
            0 if index + 1 < masters => index as u64 + 1,
            0 => 0,
            own if own.leading_zeros() < CURSOR_BITS => return None,
            own => own << CURSOR_BITS | index as u64,
        };
        let next = next.to_string();
        Some(vec![format!("*2\r\n${}\r\n{next}\r\n", next.len()).into(), reply.slice_ref(keys)])
    };
    match reply.first() {
        Some(b'-') => vec![reply.clone()],
        _ => {
            rewritten().unwrap_or_else(|| vec![Bytes::from_static(b"-ERR the source's cursor cannot be passed on\r\n")])
        }
    }
}
