//! Whole replies of commands that read one key, kept by their exact arguments and the protocol's version, for as long as a copy of the
//! key's value would be: see the decision 0008.
//!
//! A reply is derived from its key ([`larder_engine::Derived`]): whatever forgets the key forgets all replies, and one fence stops
//! the fetches of all of them.
use super::{Begun, Fetch, Group, Policy};
use crate::{config::Coherence, source::FoundReply, source::Keepable, source::KeyLife};
use larder_engine::{Derived, Expiry, Fill, Lookup, Millis, Outcome};
use larder_proto::resp::Args;

/// Names up to this length are put together without an allocation.
const SHORT: usize = 256;
/// Bits of a name's first byte.
const RESP3: u8 = 1;
const UNLESS_FIELDS_EXPIRE: u8 = 2;
/// How long an argument's length is in a name.
const LEN: usize = size_of::<u32>();

/// A command whose reply is to be fetched.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The reply is to be of RESP3, else of RESP2.
    pub resp3: bool,
    /// See [`Keepable::unless_fields_expire`].
    pub unless_fields_expire: bool,
    parts: &'a [u8],
}
impl<'a> Asked<'a> {
    /// Reads what [`write_name`] wrote; `None` for a fetch of a value, which has no name.
    fn of(name: &'a [u8]) -> Option<Asked<'a>> {
        let (&how, parts) = name.split_first()?;
        Some(Asked { resp3: how & RESP3 != 0, unless_fields_expire: how & UNLESS_FIELDS_EXPIRE != 0, parts })
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

fn name_len(command: Args<'_>) -> usize {
    1 + command.from(0).map(|part| LEN + part.len()).sum::<usize>()
}
/// Fills `name`, which has [`name_len`] bytes: how it is to be fetched, then each part after its length.
fn write_name(command: Args<'_>, how: u8, name: &mut [u8]) {
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

impl Policy {
    /// Are replies kept at all?
    pub fn keeps_replies(&self) -> bool {
        self.max_reply > 0 && self.coherence != Coherence::Off
    }
}

impl Group {
    /// Is the reply to a command with such arguments kept, if the source says that it can be?
    pub fn keeps_reply_to(&self, command: Args<'_>) -> bool {
        self.policy.keeps_replies() && name_len(command) <= self.policy.max_reply
    }

    /// Begins a read of the whole reply to `command`, as the source says that it can be kept; otherwise as [`begin`](Group::begin).
    /// [`Begun::Absent`]: it was not asked for lately, and keeping it costs the source more than an answer: relay it.
    pub fn begin_reply<R>(
        &self,
        command: Args<'_>,
        keepable: Keepable,
        resp3: bool,
        now: Millis,
        batch: &mut Vec<Fetch>,
        read: impl FnOnce(Derived<'_>) -> R,
    ) -> Begun<R> {
        let len = name_len(command);
        let (mut short, mut long) = ([0; SHORT], Vec::new());
        let name = match short.get_mut(..len) {
            Some(name) => name,
            None => {
                long.resize(len, 0);
                &mut long[..]
            }
        };
        let how = if resp3 { RESP3 } else { 0 } | if keepable.unless_fields_expire { UNLESS_FIELDS_EXPIRE } else { 0 };
        write_name(command, how, name);
        let (key, name) = (self.cache.key(command.get(keepable.key).unwrap_or_default()), self.cache.key(name));
        match self.cache.lookup_derived(key, name, now, read) {
            Lookup::Hit(answer) => Begun::Hit(answer),
            Lookup::Absent => Begun::Absent,
            Lookup::Wait(wait) => Begun::Wait(wait),
            Lookup::Lead(lead) => {
                let wait = lead.wait();
                batch.push(Fetch::new(lead, self.policy));
                Begun::Wait(wait)
            }
        }
    }
}

impl Fetch {
    /// The command whose reply is to be fetched; `None`: the value of the key is.
    pub fn asked(&self) -> Option<Asked<'_>> {
        Asked::of(self.lead.name())
    }

    /// [`finish`](Fetch::finish) for a fetch of a reply that has come, be it an error.
    pub fn finish_reply(self, found: FoundReply, now: Millis) {
        if self.policy.coherence != Coherence::Ttl {
            self.lead.overtake();
        }
        let len = found.reply.len() + self.lead.name().len();
        let fill = match found.key {
            _ if found.is_error() || len > self.policy.max_reply || !self.keep() => Fill::Skip,
            KeyLife::Until(at) if at <= now => Fill::Skip,
            KeyLife::Until(at) => Fill::Store(self.policy.cap(Some(at), now)),
            KeyLife::Unbounded => Fill::Store(self.policy.cap(None, now)),
            // What is said of a key that is not there is remembered as its absence would be.
            KeyLife::Absent => match self.policy.negative_ttl {
                Some(ttl) if ttl > 0 => Fill::Store(Expiry::At(now.saturating_add(ttl))),
                _ => Fill::Skip,
            },
        };
        if fill == Fill::Skip && self.policy.serves_stale() {
            self.lead.forget();
        }
        self.lead.finish(Outcome::Value(found.reply), fill, now);
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
        let asked = Asked::of(&name).expect("it is a reply");
        assert!(asked.resp3);
        assert_eq!(asked.parts().collect::<Vec<_>>(), [&b"hget"[..], b"kEY", b"f"]);
        assert_ne!(name, named(&[0..4, 4..6, 6..8], true), "other parts of the same bytes");
        assert_ne!(name, named(&[0..4, 4..7, 7..8], false), "the other protocol");
        assert!(Asked::of(b"").is_none());
    }
}
