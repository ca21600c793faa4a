//! The Go programs of `tests/interop`, which run the real groupcache libraries.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Builds a program of `tests/interop` and returns where it is. Go's own cache makes that quick
/// when nothing has changed.
pub(crate) fn program(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("interop-{name}"));
    let output = Command::new("go")
        .current_dir(root.join("tests/interop"))
        .args(["build", "-o", built.to_str().unwrap(), &format!("./{name}")])
        // Where `make tools` has put the libraries.
        .env("GOMODCACHE", root.canonicalize().unwrap().join(".deps/go-modules"))
        .env("GOFLAGS", "-modcacherw -buildvcs=false")
        .output()
        .unwrap_or_else(|error| panic!("go: {error}. Install Go 1.26 or later, then type: make tools"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tests/interop/{name} does not build. Type: make tools\n{errors}");
    built
}
