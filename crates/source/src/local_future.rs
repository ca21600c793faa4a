//! The future type of every source call.
use std::{future::Future, pin::Pin};

/// A boxed future that stays on its core (not `Send`).
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
