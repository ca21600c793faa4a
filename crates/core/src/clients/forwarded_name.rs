//! The name of a command that only the source knows, for CLIENT LIST.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORD: usize = size_of::<u64>();
const WORDS: usize = 4;
/// Bytes that are kept. The longest names of Redis have 21 (`xgroup|createconsumer`).
const ROOM: usize = WORD * WORDS;

/// A command's first two arguments as they came, if they fit: name and perhaps subcommand, without
/// allocation or lock. The client's own worker writes it. A reader on another worker may see parts
/// of two names; it looks the text up in a table of commands anyway.
#[derive(Debug, Default)]
pub struct Name([AtomicU64; WORDS]);

impl Name {
    /// Replaces the name.
    pub fn set(&self, name: &[u8], sub: Option<&[u8]>) {
        let mut text = [0; ROOM];
        if let Some(room) = text.get_mut(..name.len()) {
            room.copy_from_slice(name);
        }
        if let Some(sub) = sub
            && let Some(room) = text.get_mut(name.len() + 1..name.len() + 1 + sub.len())
        {
            room.copy_from_slice(sub);
        }
        for (word, bytes) in self.0.iter().zip(text.as_chunks::<WORD>().0) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
    }

    /// Shows name and subcommand to `see`. Either is empty if it did not fit.
    pub fn see<T>(&self, see: impl FnOnce(&[u8], &[u8]) -> T) -> T {
        let mut text = [0; ROOM];
        for (word, bytes) in self.0.iter().zip(text.as_chunks_mut::<WORD>().0) {
            *bytes = word.load(Relaxed).to_ne_bytes();
        }
        let mut parts = text.split(|byte| *byte == 0);
        let name = parts.next().unwrap_or_default();
        see(name, parts.next().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn keeps_what_fits() {
        let name = Name::default();
        let shown = |name: &Name| name.see(|name, sub| (name.to_vec(), sub.to_vec()));
        let pair = |name: &str, sub: &str| (name.as_bytes().to_vec(), sub.as_bytes().to_vec());
        assert_eq!(shown(&name), pair("", ""));
        name.set(b"XGROUP", Some(b"CREATECONSUMER"));
        assert_eq!(shown(&name), pair("XGROUP", "CREATECONSUMER"));
        name.set(b"blpop", Some(&[b'k'; 26]));
        assert_eq!(shown(&name), ("blpop".into(), vec![b'k'; 26]));
        name.set(b"blpop", Some(&[b'k'; 27]));
        assert_eq!(shown(&name), pair("blpop", ""));
        name.set(&[b'n'; 32], Some(b""));
        assert_eq!(shown(&name), ("n".repeat(32).into(), Vec::new()));
        name.set(&[b'n'; 33], Some(b"s"));
        assert_eq!(shown(&name).0, b"");
        name.set(b"hget", None);
        assert_eq!(shown(&name), pair("hget", ""));
    }
}
