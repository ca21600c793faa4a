//! COMMAND: the command table for clients and people. A Redis source has its own table, which has
//! more. Also HELP of every command that has subcommands.
use crate::{
    command::{Command, Keys},
    command_context::CommandContext,
    command_lookup::{COMMANDS, FoundCommand, find_for, subcommands},
    command_outcome::{CommandError, Done, Flow, SYNTAX},
};
use larder_engine::Tier;
use larder_proto::{glob, resp::Reply};

fn top_level() -> impl Iterator<Item = &'static Command> + Clone {
    COMMANDS.iter().filter(|command| !command.is_sub)
}

/// A command, or a subcommand as `parent|name`.
fn by_name(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

pub(crate) fn all(call: &mut CommandContext<'_>, _: &mut Tier<'_>) -> Done {
    call.reply.array(top_level().count());
    top_level().for_each(|command| info_of(&mut call.reply, command));
    Ok(Flow::Done)
}

pub(crate) fn count(call: &mut CommandContext<'_>, _: &mut Tier<'_>) -> Done {
    call.integer(top_level().count() as i64)
}

/// COMMAND INFO [name …]
pub(crate) fn info(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let names = call.args.from(2);
    if names.len() == 0 {
        return all(call, tier);
    }
    call.reply.array(names.len());
    for name in names {
        if call.reply.output().is_refused() {
            break;
        }
        match by_name(name) {
            Some(command) => info_of(&mut call.reply, command),
            None => call.reply.null(),
        }
    }
    Ok(Flow::Done)
}

fn info_of(reply: &mut Reply<'_>, command: &Command) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    let flags = command.flags.names();
    let movable = command.keys.are_counted().then_some("movablekeys");
    reply.set(flags.clone().count() + usize::from(movable.is_some()));
    flags.chain(movable).for_each(|flag| reply.simple(flag));
    let keys = if movable.is_some() { Keys { first: 0, last: 0, step: 0 } } else { command.keys };
    reply.integer(i64::from(keys.first));
    reply.integer(i64::from(keys.last));
    reply.integer(i64::from(keys.step));
    reply.set(0); // ACL categories: there are none
    reply.set(0); // tips
    reply.set(0); // key specifications
    let subs = subcommands(command);
    reply.array(subs.clone().count());
    subs.for_each(|sub| info_of(reply, sub));
}

/// COMMAND DOCS [name …]
pub(crate) fn docs(call: &mut CommandContext<'_>, _: &mut Tier<'_>) -> Done {
    let commands: Vec<&Command> = match call.args.len() {
        2 => top_level().collect(),
        _ => call.args.from(2).filter_map(by_name).collect(),
    };
    call.reply.map(commands.len());
    for command in commands {
        if call.reply.output().is_refused() {
            break;
        }
        docs_of(&mut call.reply, command);
    }
    Ok(Flow::Done)
}

fn docs_of(reply: &mut Reply<'_>, command: &Command) {
    let subs = subcommands(command);
    let count = subs.clone().count();
    reply.bulk(command.name.as_bytes());
    reply.map(3 + usize::from(count > 0));
    for (name, text) in [("summary", command.summary), ("since", command.since), ("group", command.group)] {
        reply.named(name).bulk(text.as_bytes());
    }
    if count > 0 {
        reply.named("subcommands").map(count);
        subs.for_each(|sub| docs_of(reply, sub));
    }
}

/// COMMAND LIST [FILTERBY MODULE m | ACLCAT c | PATTERN p]
pub(crate) fn list(call: &mut CommandContext<'_>, _: &mut Tier<'_>) -> Done {
    let is =
        |index: usize, name: &str| call.args.get(index).is_some_and(|part| part.eq_ignore_ascii_case(name.as_bytes()));
    let pattern = match call.args.len() {
        2 => Some(&b"*"[..]),
        5 if is(2, "filterby") && is(3, "pattern") => call.args.get(4),
        // There are no modules and no categories.
        5 if is(2, "filterby") && (is(3, "module") || is(3, "aclcat")) => None,
        _ => return Err(SYNTAX),
    };
    let matching =
        |command: &&Command| pattern.is_some_and(|pattern| glob::matches(pattern, command.name.as_bytes(), true));
    let names: Vec<&Command> = COMMANDS.iter().filter(matching).collect();
    call.reply.array(names.len());
    names.iter().for_each(|command| call.reply.bulk(command.name.as_bytes()));
    Ok(Flow::Done)
}

/// COMMAND GETKEYS command [argument …]
pub(crate) fn getkeys(call: &mut CommandContext<'_>, _: &mut Tier<'_>) -> Done {
    let args = call.args.skip(2);
    let FoundCommand::Command(command) = find_for(args) else {
        return Err(CommandError::Static("ERR Invalid command specified"));
    };
    if command.keys.first == 0 {
        return Err(CommandError::Static("ERR The command has no key arguments"));
    }
    if !command.takes(args.len()) {
        return Err(CommandError::Static("ERR Invalid number of arguments specified for command"));
    }
    let keys = command.keys.of(args);
    if keys.len() == 0 {
        return Err(CommandError::Static("ERR Invalid arguments specified for command"));
    }
    call.reply.array(keys.len());
    keys.for_each(|key| call.reply.bulk(key));
    Ok(Flow::Done)
}

/// HELP of any command that has subcommands.
pub(crate) fn help(call: &mut CommandContext<'_>) -> Done {
    let parent = call.command.name.split('|').next().unwrap_or_default();
    let subs = COMMANDS.iter().filter_map(|command| {
        let (of, name) = command.name.split_once('|')?;
        (of == parent).then_some((name, command.summary))
    });
    call.reply.array(1 + 2 * subs.clone().count());
    let title = parent.to_uppercase();
    call.reply.simple(&format!("{title} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for (name, summary) in subs {
        let arguments =
            subcommand_arguments(parent, name).map_or_else(String::new, |arguments| format!(" {arguments}"));
        call.reply.simple(&format!("{}{arguments}", name.to_uppercase()));
        call.reply.simple(&format!("    {summary}"));
    }
    Ok(Flow::Done)
}

/// In the notation of Redis's HELP; `None`: the subcommand has none.
fn subcommand_arguments(parent: &str, name: &str) -> Option<&'static str> {
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
