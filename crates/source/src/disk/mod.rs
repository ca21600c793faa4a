//! `disk:DIR`: the durable store of this machine ([`store::disk`](larder_store::disk)) as a source.
//!
//! Reads go to a reader thread and writes to the committer thread; `disk_handoff` carries both. A
//! write whose reply says whether there was an entry reads first. That is safe because the writer
//! holds the key's lock.
//!
//! A read that takes longer than `source-timeout` fails on the core, whatever the disk does. For
//! writes see [`LocalStore::patience`](crate::LocalStore::patience).
mod disk_handoff;
mod disk_setup;
mod disk_source;

pub(super) use disk_source::setup;
