//! Tells the program by which profile and from which commit it is built: the ready message and
//! `larder_build_info` say so.
use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // target/PROFILE/build/larder-HASH/out. The variable PROFILE knows only `debug` and `release`, also
    // where another inherits.
    let out = env::var("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name).and_then(|name| name.to_str());
    let profile = profile.unwrap_or("unknown");
    println!("cargo:rustc-env=BUILD_PROFILE={profile}");
    println!("cargo:rustc-env=BUILD_COMMIT={}", commit(profile != "debug"));
}

/// What `LARDER_COMMIT` says, for builds without a repository; otherwise the repository's commit. A
/// debug build is not made again for each commit.
fn commit(may_ask_git: bool) -> String {
    println!("cargo:rerun-if-env-changed=LARDER_COMMIT");
    if let Some(commit) = env::var("LARDER_COMMIT").ok().filter(|commit| !commit.is_empty()) {
        return commit;
    }
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    let known = may_ask_git.then(|| {
        if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
            println!("cargo:rerun-if-changed={log}");
        }
        git(&["rev-parse", "--short=12", "HEAD"])
    });
    known.flatten().unwrap_or_else(|| "unknown".to_owned())
}
