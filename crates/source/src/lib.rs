//! Sources: what answers a miss and takes writes. One trait ([`Source`]), one conformance suite,
//! one file or folder for each implementation.
//!
//! ```text
//! none.rs   none:    the memory tier is the store
//! demo.rs   demo:    answers that are made up, with a delay and faults
//! redis/    redis:, rediss:, unix:, redis+sentinel:, redis+cluster:    a Redis server, or several
//! disk/     disk:    the durable store of this machine
//! http_origin/    http:, https:    an HTTP API; a key is one of its URLs
//! postgres/ postgres:    rows of a PostgreSQL database
//! cassandra/ cassandra:  a table of a Cassandra or ScyllaDB cluster
//! table/    table:   an immutable table, read from its memory map
//! ```
//!
//! To add a source:
//! 1. Give its URL a variant of `config::SourceUrl`, and its class there (`SourceUrl::class`).
//! 2. Write a file or folder here with a type that implements [`Source`] (one core's handle). Its
//!    [`kind`](Source::kind) says what the group and the doors do with it.
//! 3. Write a function `setup` there, which builds what all cores share. Add one line to
//!    `SourceSetup::sharing` (`source_of_url.rs`) that calls it.
//! 4. Run the conformance suite on it (`tests/source_conformance`).
//!
//! Invariants, for every implementation:
//! - Every [`Fetch`] that a source takes is finished within `source-timeout`, or dropped, which
//!   releases its waiters too.
//! - A write that returns [`SourceError::Unavailable`] or [`SourceError::Refused`] changed nothing
//!   at the source. A write that may have been applied returns [`SourceError::Lost`].
//! - Sources do not touch the memory tier. `read` does, through [`Fetch::finish`], the
//!   write-through and [`Invalidations`].
//! - A source vouches for a fetch ([`Fetch::vouch`]) only if it will announce the next change of
//!   the key, or the loss of that ability.
//!
//! The files here that are no implementation are the contract. Implementations import them; they
//! import an implementation only where a name in the contract needs it ([`SourceKind::Table`]).
mod admission;
mod busy_server;
mod cassandra;
mod client_mark;
mod copy_metadata;
mod demo;
mod disk;
mod documents;
mod fetch;
mod fetch_gate;
mod fetch_refusals;
mod fetch_result;
mod fill_policy;
mod http_origin;
mod inspection;
mod invalidation;
mod jittered_wait;
mod local_future;
mod local_store;
mod mirror;
mod mode_rules;
pub mod none;
mod ordered_faults;
mod postgres;
mod prefix_table;
mod push_queue;
mod raw_replies;
mod redis;
mod redis_server_trait;
pub mod reply_name;
mod request_trace;
mod server_identity;
mod source_error;
mod source_health;
mod source_limits;
mod source_of_url;
mod source_setup;
mod source_trait;
mod stale_rules;
mod stored_entries;
mod table;
mod tier_invalidation;
mod upstream_commands;
mod user_servers;
mod value_stream;

pub use admission::{BreakerState, ServerLoads};
pub use cassandra::{apply_schema as apply_cassandra_schema, schema as cassandra_schema};
pub use client_mark::{ClientMark, EncodedMark};
pub use copy_metadata::{CopyMetadata, CopyMetadataView, FreshUntil, Validators};
pub use documents::{DOCUMENT_ATTRIBUTES, DOCUMENT_METADATA, KindMetadata, is_document, kind_of, metadata_of};
pub use fetch::Fetch;
pub use fetch_refusals::no_room_for_key;
pub use fetch_result::{CacheableReply, FetchAnswer, FetchedReply, KeyLife};
pub use fill_policy::{FillPolicy, Freshness, FreshnessTable, KeyPolicy};
pub use inspection::{Inspected, Inspection, InspectionCounts};
pub use invalidation::{InvalidationScope, Invalidations, VouchesFor};
pub use jittered_wait::jittered;
pub use local_future::LocalFuture;
pub use local_store::{LocalStore, Page, Revision, Scan, SharedStore};
pub use mirror::{DrainedMirror, Mirror, mirror_task::run as run_mirror, source_pair::SourcePair};
pub use mode_rules::{ModeRule, ModeRules, ModeTable, check_count, mode_rules_text, parse_mode, parse_mode_rules};
pub use postgres::triggers as postgres_triggers;
pub use prefix_table::PrefixTable;
pub use push_queue::PushQueue;
pub use raw_replies::RawReplies;
pub use redis::cluster::key_slot::{SLOTS as KEY_SLOTS, slot as key_slot};
pub use redis_server_trait::answers_ping;
pub use redis_server_trait::{ClientTracking, DedicatedConnection, Pace, RedisServer, Relay};
pub use request_trace::RequestTrace;
pub use server_identity::ServerIdentity;
pub use source_error::SourceError;
pub use source_error::UNAVAILABLE;
pub use source_health::SourceHealth;
pub use source_limits::LARGE;
pub use source_limits::{BreakerPolicy, SourceLimits};
pub use source_setup::SourceSetup;
pub use source_trait::{Source, SourceKind, ValueWrites};
pub use stored_entries::{EntryPage, HeldEntry, StoredEntries};
pub use table::{PinnedTable, Reloaded, TableLookup, TableSetup, TableSource, table_build};
pub use tier_invalidation::{TierInvalidator, invalidation_scope};
pub use upstream_commands::{BusyFor, ForwardRule, KnownKeys, UpstreamCommand, UpstreamCommands};
pub use user_servers::UserServers;
pub use value_stream::{ValueChunks, ValueStream};
