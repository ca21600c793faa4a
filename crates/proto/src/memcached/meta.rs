//! The meta commands: a key, then flags of one letter, some with an argument.
#![expect(missing_docs, reason = "the names say it all")]
use super::{
    number::{parse_i64, parse_u32, parse_u64},
    request::{StoreMode, Tokens},
};

/// The most tokens of a meta command, its name and key included.
pub(super) const MAX_TOKENS: usize = 19;
/// The longest opaque token, with its letter.
const MAX_OPAQUE: usize = 32;

/// A meta command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta<'i> {
    pub command: MetaCommand<'i>,
    /// As it was sent: in base64 with the flag `b`.
    pub key: &'i [u8],
    pub flags: MetaFlags<'i>,
}

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaCommand<'i> {
    /// `mg`
    Get,
    /// `ms`, with its value.
    Set(&'i [u8]),
    /// `md`
    Delete,
    /// `ma`
    Arithmetic,
    /// `me`
    Debug,
}

/// What the flags say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MetaFlags<'i> {
    /// The tokens: what they ask for is returned in their order.
    text: &'i [u8],
    /// `b`: the key is in base64.
    pub is_binary: bool,
    /// `q`
    pub is_quiet: bool,
    /// `v`
    pub with_value: bool,
    /// `u`: the read does not count for eviction.
    pub is_no_access: bool,
    /// `I`
    pub invalidates: bool,
    /// `x`
    pub removes_value: bool,
    /// `N`: the exptime of what is made on a miss.
    pub vivify: Option<i64>,
    /// `T`
    pub exptime: Option<i64>,
    /// `R`
    pub recache: Option<i64>,
    /// `C`
    pub version: Option<u64>,
    /// `E`: the version to give to the entry.
    pub new_version: Option<u64>,
    /// `F`
    pub client_flags: u32,
    /// `D`
    pub delta: Option<u64>,
    /// `J`
    pub initial: u64,
    /// `M`
    pub mode: Option<MetaMode>,
}

/// The argument of `M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaMode {
    Store(StoreMode),
    Increment,
    Decrement,
    /// A letter that is no mode.
    Unknown,
}

impl<'i> MetaFlags<'i> {
    /// Reads flags.
    ///
    /// # Errors
    /// memcached's text for what is wrong.
    pub fn parse(text: &'i [u8]) -> Result<MetaFlags<'i>, &'static str> {
        const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
        let mut flags = MetaFlags { text, ..MetaFlags::default() };
        let mut seen = 0u128;
        let mut error = None;
        for token in Tokens(text) {
            let (letter, argument) = (token[0], &token[1..]);
            if letter >= 127 || seen >> letter & 1 == 1 {
                return Err("CLIENT_ERROR duplicate flag");
            }
            seen |= 1 << letter;
            let mut exptime = || match parse_i64(argument) {
                None => {
                    error = Some(BAD_TOKEN);
                    None
                }
                exptime => exptime,
            };
            match letter {
                b'b' => flags.is_binary = true,
                b'N' => flags.vivify = exptime(),
                b'T' => flags.exptime = exptime(),
                b'R' => flags.recache = exptime(),
                b'O' if token.len() > MAX_OPAQUE => error = Some("CLIENT_ERROR opaque token too long"),
                b'c' | b'f' | b'h' | b'k' | b'l' | b'L' | b'O' | b'P' | b's' | b't' => {}
                b'u' => flags.is_no_access = true,
                b'x' => flags.removes_value = true,
                b'v' => flags.with_value = true,
                b'q' => flags.is_quiet = true,
                b'I' => flags.invalidates = true,
                b'F' => match parse_u32(argument) {
                    Some(client_flags) => flags.client_flags = client_flags,
                    None => error = Some("CLIENT_ERROR bad command line format"),
                },
                b'C' => match parse_u64(argument) {
                    None => error = Some(BAD_TOKEN),
                    version => flags.version = version,
                },
                b'E' => match parse_u64(argument) {
                    None => error = Some(BAD_TOKEN),
                    version => flags.new_version = version,
                },
                b'M' => match argument {
                    [mode] => flags.mode = Some(MetaMode::of(*mode)),
                    _ => error = Some("CLIENT_ERROR incorrect length for M token"),
                },
                b'J' => match parse_u64(argument) {
                    Some(initial) => flags.initial = initial,
                    None => error = Some("CLIENT_ERROR invalid numeric initial value"),
                },
                b'D' => match parse_u64(argument) {
                    None => error = Some("CLIENT_ERROR invalid numeric delta value"),
                    delta => flags.delta = delta,
                },
                _ => return Err("CLIENT_ERROR invalid flag"),
            }
        }
        error.map_or(Ok(flags), Err)
    }

    /// The tokens as they were sent.
    pub fn text(&self) -> &'i [u8] {
        self.text
    }

    /// The tokens, in the client's order.
    pub fn tokens(&self) -> impl Iterator<Item = &'i [u8]> + use<'i> {
        Tokens(self.text)
    }
}

impl MetaMode {
    fn of(letter: u8) -> MetaMode {
        match letter {
            b'E' | b'e' => MetaMode::Store(StoreMode::Add),
            b'A' | b'a' => MetaMode::Store(StoreMode::Append),
            b'P' | b'p' => MetaMode::Store(StoreMode::Prepend),
            b'R' | b'r' => MetaMode::Store(StoreMode::Replace),
            b'S' | b's' => MetaMode::Store(StoreMode::Set),
            b'I' | b'i' | b'+' => MetaMode::Increment,
            b'D' | b'd' | b'-' => MetaMode::Decrement,
            _ => MetaMode::Unknown,
        }
    }
}
