//! Who is calling, and what they may do: users in Redis's ACL syntax.
//!
//! ```text
//! rules of ACL SETUSER, the users file, or a Redis's ACL GETUSER
//!     │ selector: command_rules, name_pattern
//!     ▼
//! Permissions ── check(command, keys, channels) ──► allowed, or what is refused
//! ```
//!
//! Invariants:
//! - This room knows no commands: [`CommandCatalog`] is filled by the room that has them.
//! - Of two rules about a command the later one counts; a command that no rule names is refused.
//! - Of commands whose categories are not known, rules believe the worst.
//! - A token ([`jwt`]) names a user of the table. What it may do is in the table alone.
//! - A selector is complete in itself: commands of one never go with the keys of another.
mod acl_log;
mod command_catalog;
mod command_request;
mod command_rules;
mod jwt;
mod login_throttle;
mod name_pattern;
mod passwords;
mod permissions;
mod rule_error;
mod selector;
#[cfg(test)]
mod tests;
mod upstream_rights;
mod user;
mod users;
mod users_file;

pub use acl_log::{AclLog, AclLogEntry, RefusalReason};
pub use command_catalog::{CatalogRow, CommandCatalog};
pub use command_request::CommandRequest;
pub use login_throttle::Credential;
pub use name_pattern::KeyAccess;
pub use passwords::{Passwords, fill_random};
pub use permissions::{Beyond, Permissions, Refusal, TouchedChannel, TouchedKey};
pub use rule_error::RuleError;
pub use upstream_rights::{RightsAnswer, RightsNow, RightsQuestion, UpstreamRights, UserRights};
pub use user::{DEFAULT_USER, RejectedRule, User};
pub use users::{ChangedUsers, LoginOutcome, Users};
