//! redis-rs with its default settings through the script of the matrix (../../README.md).

use redis::{Client, Commands, Connection, ErrorKind, PubSub, RedisError, RedisResult, Script, ServerErrorKind, TypedCommands};
use std::{
    collections::HashMap,
    env,
    fmt::Debug,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    process::exit,
    thread,
    time::{Duration, Instant},
};

const ADD: &str = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
const PATIENCE: Duration = Duration::from_secs(20);

struct Matrix {
    client: Client,
    redis: Connection,
    prefix: String,
}
