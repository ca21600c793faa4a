//! What is wrong with a rule, in Redis's words.
use std::fmt;

/// Why a rule cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleError {
    Syntax,
    UnknownCommand,
    ArgumentOfSubcommand,
    KeysAreAll,
    ChannelsAreAll,
    NoSuchPassword,
    MalformedHash,
    /// An argon2 hash that is not in the PHC string format, or that would take too much memory or
    /// time.
    UnusableArgon2,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleError::Syntax => "Syntax error",
            RuleError::UnknownCommand => "Unknown command or category name in ACL",
            RuleError::ArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            RuleError::KeysAreAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::ChannelsAreAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            RuleError::MalformedHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::UnusableArgon2 => {
                "The argon2 hash must be in the PHC string format with at most 256 MiB and 10 passes"
            }
        })
    }
}
