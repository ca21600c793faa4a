//! Tells the program by which profile it is built: the ready message says so.
use std::{env, path::Path};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // target/PROFILE/build/larder-HASH/out. The variable PROFILE knows only `debug` and `release`, also
    // where another inherits.
    let out = env::var("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name).and_then(|name| name.to_str());
    println!("cargo:rustc-env=BUILD_PROFILE={}", profile.unwrap_or("unknown"));
}
