//! The arguments of subcommands, as HELP shows them.

/// In the notation of Redis's HELP; `None`: the subcommand has none.
pub(super) fn subcommand_arguments(parent: &str, name: &str) -> Option<&'static str> {
    Some(match (parent, name) {
        ("acl", "cat") => "[<category>]",
        ("acl", "deluser") => "<username> [<username> ...]",
        ("acl", "dryrun") => "<username> <command> [<arg> ...]",
        ("acl", "genpass") => "[<bits>]",
        ("acl", "getuser") => "<username>",
        ("acl", "log") => "[<count> | RESET]",
        ("acl", "setuser") => "<username> [<rule> ...]",
        ("client", "caching") => "(YES|NO)",
        ("client", "capa") => "<capability> [<capability> ...]",
        ("client", "kill") => "<ip:port> | <option> <value> [<option> <value> ...]",
        ("client", "list") => "[TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <id> [<id> ...]]",
        ("client", "maint_notifications") => "(ON|OFF) [<parameter> <value> ...]",
        ("client", "no-evict" | "no-touch") => "(ON|OFF)",
        ("client", "pause") => "<timeout> [WRITE|ALL]",
        ("client", "reply") => "(ON|OFF|SKIP)",
        ("client", "setinfo") => "<option> <value>",
        ("client", "setname") => "<name>",
        ("client", "tracking") => "(ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
        ("client", "unblock") => "<id> [TIMEOUT|ERROR]",
        ("command", "docs" | "info") => "[<command> ...]",
        ("command", "getkeys") => "<command> [<arg> ...]",
        ("command", "list") => "[FILTERBY (MODULE <module>|ACLCAT <category>|PATTERN <pattern>)]",
        ("config", "get") => "<pattern> [<pattern> ...]",
        ("config", "set") => "<name> <value> [<name> <value> ...]",
        ("function", "flush") => "[ASYNC|SYNC]",
        ("hotkeys", "start") => "METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>]",
        ("json.debug", "memory") => "<key> [<path>]",
        ("latency", "graph" | "history") => "<event>",
        ("latency", "histogram") => "[<command> ...]",
        ("latency", "reset") => "[<event> ...]",
        ("memory", "usage") => "<key> [SAMPLES <count>]",
        ("object", "encoding" | "freq" | "idletime" | "refcount") => "<key>",
        ("pubsub", "channels" | "shardchannels") => "[<pattern>]",
        ("pubsub", "numsub" | "shardnumsub") => "[<channel> ...]",
        ("slowlog", "get") => "[<count>]",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_lookup::COMMANDS;

    #[test]
    fn those_that_the_arity_allows_are_shown() {
        for command in COMMANDS.iter() {
            let Some((parent, name)) = command.name.split_once('|') else { continue };
            let shown = subcommand_arguments(parent, name);
            assert_eq!(shown.is_some(), command.arity != 2, "{}", command.name);
            // An argument that must be there is not in brackets.
            let is_optional = shown.is_none_or(|shown| shown.starts_with('['));
            assert_eq!(is_optional, command.takes(2) && command.name != "hotkeys|start", "{}", command.name);
        }
    }
}
