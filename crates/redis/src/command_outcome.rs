//! What a command comes to: what the connection does next, or an error reply. Clients parse errors,
//! so the wording is Redis's.
use super::command::Command;
use larder_engine::TooLarge;
use larder_proto::resp::{Args, Reply, parse_i64};
use larder_source::{LocalFuture, SourceError};

/// What the connection does next.
pub type Flow = larder_core::connection::Flow<&'static Command>;

/// The outcome of a command: its reply is written, or it failed and wrote nothing.
pub(super) type Done = Result<Flow, CommandError>;
/// The outcome of a command that had to wait.
pub(super) type Later<'a> = LocalFuture<'a, Done>;

/// An error reply: a code in capitals, then text.
#[derive(Debug)]
pub(super) enum CommandError {
    Static(&'static str),
    Owned(Vec<u8>),
    /// The buffers have no room for the reply now.
    NoRoom(Vec<u8>),
}

pub(super) type CommandResult = Result<(), CommandError>;

pub(super) const SYNTAX: CommandError = CommandError::Static("ERR syntax error");
pub(super) const WRONG_TYPE: CommandError = CommandError::Static(WRONG_TYPE_TEXT);
pub(super) const WRONG_TYPE_TEXT: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(super) const NOT_INTEGER: CommandError = CommandError::Static("ERR value is not an integer or out of range");
pub(super) const NOT_FLOAT: CommandError = CommandError::Static("ERR value is not a valid float");
pub(super) const OVERFLOW: CommandError = CommandError::Static("ERR increment or decrement would overflow");
pub(super) const DECREMENT_OVERFLOW: CommandError = CommandError::Static("ERR decrement would overflow");
pub(super) const NOT_FINITE: CommandError = CommandError::Static("ERR increment would produce NaN or Infinity");
pub(super) const OFFSET: CommandError = CommandError::Static("ERR offset is out of range");
pub(super) const BIT_OFFSET: CommandError = CommandError::Static("ERR bit offset is not an integer or out of range");
pub(super) const TOO_LONG: CommandError =
    CommandError::Static("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
pub(super) const NO_SUCH_KEY: CommandError = CommandError::Static("ERR no such key");
pub(super) const SAME_OBJECT: CommandError = CommandError::Static("ERR source and destination objects are the same");
pub(super) const DB_INDEX: CommandError = CommandError::Static("ERR DB index is out of range");
pub(super) const CURSOR: CommandError = CommandError::Static("ERR invalid cursor");
pub(super) const NO_AUTH: CommandError = CommandError::Static("NOAUTH Authentication required.");
pub(super) const WRONG_PASS: CommandError =
    CommandError::Static("WRONGPASS invalid username-password pair or user is disabled.");
pub(super) const READ_ONLY_REPLICA: CommandError =
    CommandError::Static("READONLY You can't write against a read only replica.");
pub(super) const NOT_IN_MULTI: CommandError = CommandError::Static("ERR Command not allowed inside a transaction");
pub(super) const NO_CLUSTER: CommandError = CommandError::Static("ERR This instance has cluster support disabled");
pub(super) const EXEC_ABORT: CommandError =
    CommandError::Static("EXECABORT Transaction discarded because of previous errors.");

impl CommandError {
    pub(super) fn text(&self) -> &[u8] {
        match self {
            CommandError::Static(text) => text.as_bytes(),
            CommandError::Owned(text) | CommandError::NoRoom(text) => text,
        }
    }
    /// Writes the error reply.
    #[cold]
    pub(super) fn reply(&self, to: &mut Reply<'_>) {
        to.error(self.text());
    }
    /// An error that quotes what a client sent. The quote ends at a NUL byte, like in C, and has at
    /// most `limit` bytes.
    pub(super) fn quoting(before: &str, quoted: &[u8], limit: usize, after: &str) -> CommandError {
        let mut text = [before.as_bytes(), c_str(quoted, limit), after.as_bytes()].concat();
        while text.pop_if(|b| matches!(b, b'\r' | b'\n')).is_some() {}
        CommandError::Owned(text)
    }
}

/// What C prints for a string with `%.*s`.
pub(super) fn c_str(bytes: &[u8], limit: usize) -> &[u8] {
    let cut = &bytes[..bytes.len().min(limit)];
    cut.split(|&b| b == 0).next().unwrap_or(cut)
}

impl From<String> for CommandError {
    fn from(text: String) -> CommandError {
        CommandError::Owned(text.into_bytes())
    }
}
impl From<TooLarge> for CommandError {
    fn from(error: TooLarge) -> CommandError {
        let TooLarge { needed, max_memory } = error;
        CommandError::from(format!("OOM the entry needs {needed} bytes, more than max-memory ({max_memory}) allows"))
    }
}
impl From<SourceError> for CommandError {
    fn from(error: SourceError) -> CommandError {
        let text = match error {
            // The text begins with its own error code.
            SourceError::Refused(text) | SourceError::OnlyStreamed(text) => text.to_string(),
            error => format!("ERR {error}"),
        };
        CommandError::from(text)
    }
}

/// The error for a wrong number of arguments.
pub(super) fn arity(name: &str) -> CommandError {
    CommandError::from(format!("ERR wrong number of arguments for '{name}' command"))
}

pub(super) fn unknown(args: &Args<'_>) -> CommandError {
    /// Maximum quoted bytes of the name, and of the arguments.
    const QUOTED: usize = 128;
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(c_str(&args[0], QUOTED));
    text.extend_from_slice(b"', with args beginning with: ");
    let begin = text.len();
    for arg in args.from(1) {
        let used = text.len() - begin;
        if used >= QUOTED {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(c_str(arg, QUOTED - used));
        text.extend_from_slice(b"' ");
    }
    CommandError::Owned(text)
}

/// The error for a command that only a Redis as source could answer.
pub(super) fn redis_only(args: &Args<'_>) -> CommandError {
    let after = "': Larder without a source has strings and JSON; start it with --source redis://… to forward this";
    CommandError::quoting("ERR unknown command '", &args[0], 128, after)
}

pub(super) fn unknown_sub(parent: &str, sub: &[u8]) -> CommandError {
    let after = format!("'. Try {} HELP.", parent.to_uppercase());
    CommandError::quoting("ERR unknown subcommand '", sub, 128, &after)
}

/// Parses an integer argument.
pub(super) fn integer(text: &[u8]) -> Result<i64, CommandError> {
    parse_i64(text).ok_or(NOT_INTEGER)
}
/// Parses a C `int` argument (database numbers).
pub(super) fn int(text: &[u8]) -> Result<i32, CommandError> {
    let value = integer(text)?;
    i32::try_from(value).map_err(|_| {
        CommandError::from(format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX))
    })
}
