//! COMMAND: the command table for clients and people. A Redis source has its own table, which has
//! more. Also HELP of every command that has subcommands.
use super::subcommand_arguments::subcommand_arguments;
use crate::{
    command::Command,
    command_context::CommandContext,
    command_error::{CommandError, CommandResult, SYNTAX},
    command_flow::Flow,
    command_lookup::{COMMANDS, FoundCommand, find_for, subcommands},
};
use larder_engine::Tier;
use larder_proto::{glob, resp::Reply};

type Done = Result<Flow, CommandError>;

fn top_level() -> impl Iterator<Item = &'static Command> + Clone {
    COMMANDS.iter().filter(|command| !command.is_sub)
}

/// A command, or a subcommand as `parent|name`.
fn by_name(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

/// COMMAND
pub(crate) fn all(call: &mut CommandContext<'_>, _: &mut Tier<'_>) -> CommandResult {
    call.reply.array(top_level().count());
    top_level().for_each(|command| info_of(&mut call.reply, command));
    Ok(())
}

/// COMMAND COUNT
pub(crate) fn count(call: &mut CommandContext<'_>, _: &mut Tier<'_>) -> CommandResult {
    call.reply.integer(top_level().count() as i64);
    Ok(())
}

/// COMMAND INFO [name …]
pub(crate) fn info(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> CommandResult {
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
    Ok(())
}

fn info_of(reply: &mut Reply<'_>, command: &Command) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    let flags = command.flags.names();
    reply.set(flags.clone().count());
    flags.for_each(|flag| reply.simple(flag));
    reply.integer(i64::from(command.keys.first));
    reply.integer(i64::from(command.keys.last));
    reply.integer(i64::from(command.keys.step));
    reply.set(0); // ACL categories: there are none
    reply.set(0); // tips
    reply.set(0); // key specifications
    let subs = subcommands(command);
    reply.array(subs.clone().count());
    subs.for_each(|sub| info_of(reply, sub));
}

/// COMMAND DOCS [name …]
pub(crate) fn docs(call: &mut CommandContext<'_>, _: &mut Tier<'_>) -> CommandResult {
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
    Ok(())
}

fn docs_of(reply: &mut Reply<'_>, command: &Command) {
    let subs = subcommands(command);
    let count = subs.clone().count();
    reply.bulk(command.name.as_bytes());
    reply.map(3 + usize::from(count > 0));
    for (name, text) in [("summary", command.summary), ("since", command.since), ("group", command.group)] {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if count > 0 {
        reply.bulk(b"subcommands");
        reply.map(count);
        subs.for_each(|sub| docs_of(reply, sub));
    }
}

/// COMMAND LIST [FILTERBY MODULE m | ACLCAT c | PATTERN p]
pub(crate) fn list(call: &mut CommandContext<'_>, _: &mut Tier<'_>) -> CommandResult {
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
    Ok(())
}

/// COMMAND GETKEYS command [argument …]
pub(crate) fn getkeys(call: &mut CommandContext<'_>, _: &mut Tier<'_>) -> CommandResult {
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
    call.reply.array(keys.len());
    keys.for_each(|key| call.reply.bulk(key));
    Ok(())
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
