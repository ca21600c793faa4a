//! `postgres://USER@HOST/DATABASE`: rows of a PostgreSQL database, by key. All that knows SQL is in
//! this folder.
#![expect(dead_code, reason = "the next step reads rows")]
mod connect;
mod postgres_settings;
mod postgres_setup;
mod sql_error;

pub(super) use postgres_setup::setup;
