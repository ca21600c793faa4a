//! The Go programs of `tests/interop`, which run the real groupcache libraries.

use std::path::{Path, PathBuf};

/// A program of `tests/interop`, as `make tools` has built it.
pub(crate) fn program(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/interop").join(name);
    assert!(built.exists(), "tests/interop/{name} is not built. Type: make tools");
    built
}
