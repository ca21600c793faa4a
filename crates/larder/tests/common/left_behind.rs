//! Calls of the commands of the table with texts of any length, for the tests of what they leave
//! behind.
use larder_redis::Command;

/// A text of this length, another for each `n` (if it has at least eight bytes).
fn text(n: usize, length: usize) -> String {
    format!("{n:08}{:x<1$}", "", length.saturating_sub(8))
}

/// The `n`th call of a command, with texts of this length where it takes some.
pub fn call(command: &Command, n: usize, length: usize) -> Vec<String> {
    let mut words: Vec<String> = command.name.split('|').map(str::to_uppercase).collect();
    let long = text(n, length);
    // Names have a limit of their own.
    let name = text(n, length.min(1000));
    let rest: &[&str] = match command.name {
        "client|setname" => &[&name],
        "client|setinfo" => &["LIB-NAME", &name],
        "client|tracking" => &["ON", "BCAST", "PREFIX", &long],
        "client|reply" => &["OFF"],
        "client|caching" => &["YES"],
        "client|pause" => &["0"],
        "client|maint_notifications" => &["ON"],
        "client|kill" => &["ID", "4000000000"],
        "hello" => &["3", "SETNAME", &name],
        "auth" => &["default", &long],
        "select" => &["0"],
        "publish" | "spublish" => &["all", &long],
        "acl|setuser" => &[&name, "on", &format!("~{long}"), &format!("&{long}"), "+get"],
        "acl|load" => &[],
        "config|set" => &["slowlog-max-len", "10"],
        "hotkeys|start" => &["METRICS", "1", "CPU"],
        "replicaof" | "slaveof" => &[&long, "1"],
        "larder.replicate" => &["1", "", "0", "0", &long],
        "larder.tag" => &["key", &name],
        "set" => &[&long, &long],
        "msetex" => &["1", &long, &long],
        "setrange" => &[&long, "0", &long],
        "bitop" => &["OR", &long, "key"],
        "pfadd" => &[&long, &long],
        "bitfield" => &[&long, "SET", "u8", "0", "1"],
        "bitfield_ro" => &[&long, "GET", "u8", "0"],
        "setbit" => &[&long, "7", "1"],
        "json.set" => &[&long, "$", &format!("\"{long}\"")],
        "wait" => &["0", "0"],
        "monitor" | "quit" | "reset" | "larder.forwarded" | "multi" => &[],
        _ => {
            let parts = usize::from(command.arity.unsigned_abs()).max(words.len());
            words.resize(parts, long.clone());
            &[]
        }
    };
    words.extend(rest.iter().map(|part| (*part).to_owned()));
    words
}
