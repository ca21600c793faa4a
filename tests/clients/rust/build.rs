//! The version of redis-rs in the lock file, for the report.
fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").unwrap();
    let package = lock.split("[[package]]").find(|package| package.contains("name = \"redis\"")).unwrap();
    let version = package.split("version = \"").nth(1).unwrap().split('"').next().unwrap();
    println!("cargo::rustc-env=REDIS_RS={version}");
}
