//! The store by itself.
