//! The name of a cached reply: the protocol version and the exact command.
use larder_proto::resp::Args;

/// Bits of a name's first byte.
pub const RESP3: u8 = 1;
/// See [`CacheableReply::unless_fields_expire`](super::CacheableReply::unless_fields_expire).
pub const UNLESS_FIELDS_EXPIRE: u8 = 2;
/// Bytes of an argument's length in a name.
const LEN: usize = size_of::<u32>();

/// A command whose whole reply is cached, read from its name in the memory tier.
#[derive(Debug, Clone, Copy)]
pub struct ReplyName<'a> {
    /// Whether the reply is RESP3, else RESP2.
    pub resp3: bool,
    /// See [`CacheableReply::unless_fields_expire`](super::CacheableReply::unless_fields_expire).
    pub unless_fields_expire: bool,
    parts: &'a [u8],
}
impl<'a> ReplyName<'a> {
    /// Reads what [`write_name`] wrote; `None` for a fetch of a value, which has no name.
    pub fn read(name: &'a [u8]) -> Option<ReplyName<'a>> {
        let (&how, parts) = name.split_first()?;
        Some(ReplyName { resp3: how & RESP3 != 0, unless_fields_expire: how & UNLESS_FIELDS_EXPIRE != 0, parts })
    }
    /// The parts of the command, its name first, in lower case.
    pub fn parts(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.parts;
        std::iter::from_fn(move || {
            let (len, behind) = rest.split_first_chunk::<LEN>()?;
            let (part, behind) = behind.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = behind;
            Some(part)
        })
    }
}

/// Bytes of the name of this command.
pub fn name_len(command: Args<'_>) -> usize {
    1 + command.from(0).map(|part| LEN + part.len()).sum::<usize>()
}
/// Fills `name` ([`name_len`] bytes): the flags `how`, then the length and bytes of each part.
pub fn write_name(command: Args<'_>, how: u8, name: &mut [u8]) {
    name[0] = how;
    let mut at = 1;
    for part in command.from(0) {
        name[at..at + LEN].copy_from_slice(&(part.len() as u32).to_le_bytes());
        at += LEN;
        name[at..at + part.len()].copy_from_slice(part);
        if at == 1 + LEN {
            name[at..at + part.len()].make_ascii_lowercase();
        }
        at += part.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_command_and_nothing_else() {
        let text = b"HGETkEYf";
        let named = |ranges: &[std::ops::Range<u32>], resp3| {
            let command = Args::new(text, ranges);
            let mut name = vec![0xff; name_len(command)];
            write_name(command, u8::from(resp3), &mut name);
            name
        };
        let name = named(&[0..4, 4..7, 7..8], true);
        let asked = ReplyName::read(&name).expect("it is a reply");
        assert!(asked.resp3);
        assert_eq!(asked.parts().collect::<Vec<_>>(), [&b"hget"[..], b"kEY", b"f"]);
        assert_ne!(name, named(&[0..4, 4..6, 6..8], true), "other parts of the same bytes");
        assert_ne!(name, named(&[0..4, 4..7, 7..8], false), "the other protocol");
        assert!(ReplyName::read(b"").is_none());
    }
}
