//! ACL: Larder's own users. With a Redis source and no users of its own, Larder forwards these
//! commands.
use crate::{
    command_context::CommandContext,
    command_lookup::{COMMANDS, FoundCommand, find_for},
    command_outcome::{CommandError, Done, Flow, SYNTAX, arity, integer},
    command_rights,
    commands::client::check_length,
};
use larder_base::identity::{AclLogEntry, ChangedUsers, DEFAULT_USER, Refusal, RejectedRule, User};
use larder_config::Categories;
use std::{fmt::Write as _, sync::Arc};

pub(crate) fn whoami(call: &mut CommandContext<'_>) -> Done {
    let name = call.session.client.about.lock().user.clone();
    call.bulk(name.as_bytes())
}

pub(crate) fn users(call: &mut CommandContext<'_>) -> Done {
    let users = call.worker.app.users.all();
    call.reply.array(users.len());
    users.iter().for_each(|user| call.reply.bulk(user.name.as_bytes()));
    Ok(Flow::Done)
}

pub(crate) fn list(call: &mut CommandContext<'_>) -> Done {
    let users = call.worker.app.users.all();
    call.reply.array(users.len());
    users.iter().for_each(|user| call.reply.bulk(&user.line()));
    Ok(Flow::Done)
}

pub(crate) fn getuser(call: &mut CommandContext<'_>) -> Done {
    let Some(user) = find(call, call.arg(2)) else {
        return call.null();
    };
    let reply = &mut call.reply;
    reply.map(6);
    reply.named("flags").set(user.flags().count());
    user.flags().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.named("passwords").array(user.hashes().len());
    user.hashes().for_each(|hash| reply.bulk(hash.as_bytes()));
    let mut selectors = user.descriptions();
    let names: [&[u8]; 3] = [b"commands", b"keys", b"channels"];
    for (name, text) in names.into_iter().zip(selectors.next().unwrap_or_default()) {
        reply.bulk(name);
        reply.bulk(&text);
    }
    reply.named("selectors").array(selectors.len());
    for selector in selectors {
        reply.map(3);
        for (name, text) in names.into_iter().zip(selector) {
            reply.bulk(name);
            reply.bulk(&text);
        }
    }
    Ok(Flow::Done)
}

fn find(call: &CommandContext<'_>, name: &[u8]) -> Option<Arc<User>> {
    call.worker.app.users.find(std::str::from_utf8(name).ok()?)
}

/// ACL SETUSER name [rule …]
pub(crate) fn setuser(call: &mut CommandContext<'_>) -> Done {
    let name = call.arg(2);
    let shown = std::str::from_utf8(name).ok().filter(|name| !name.contains(|c: char| c.is_whitespace() || c == '\0'));
    let Some(name) = shown.filter(|name| !name.is_empty()) else {
        return Err(CommandError::Static("ERR Usernames can't contain spaces or null characters"));
    };
    check_length(name.as_bytes())?;
    let rules: Vec<&[u8]> = call.args.from(3).collect();
    let changed = call.worker.app.users.set(name, &rules).map_err(rejected)?;
    tracing::warn!(user = name, by = %call.session.client.peer, "ACL SETUSER: a user was made or changed");
    let is_own = call.worker.app.users_changed(&changed, call.session.client.id);
    call.reply.ok();
    // The reply goes out first.
    Ok(if is_own { Flow::Close } else { Flow::Done })
}

fn rejected(why: RejectedRule) -> CommandError {
    let (before, rule, after) = match &why {
        RejectedRule::NoRoom { most } => {
            let text = format!("ERR users made with ACL SETUSER may occupy {most} bytes, an eighth of max-buffers");
            return CommandError::from(text);
        }
        RejectedRule::Rule { rule, error } => ("ERR Error in ACL SETUSER modifier '", rule, format!("': {error}")),
        RejectedRule::Unmatched(rule) => {
            ("ERR Unmatched parenthesis in acl selector starting at '", rule, "'.".to_owned())
        }
    };
    CommandError::quoting(before, rule, usize::MAX, &after)
}

pub(crate) fn deluser(call: &mut CommandContext<'_>) -> Done {
    let names: Vec<&str> = call.args.from(2).filter_map(|name| std::str::from_utf8(name).ok()).collect();
    if names.contains(&DEFAULT_USER) {
        return Err(CommandError::Static("ERR The 'default' user cannot be removed"));
    }
    let deleted = call.worker.app.users.delete(&names);
    tracing::warn!(users = names.join(" "), by = %call.session.client.peer, "ACL DELUSER: users were deleted");
    let is_own = call.worker.app.users_changed(&ChangedUsers::default(), call.session.client.id);
    call.reply.integer(deleted as i64);
    // The reply goes out first.
    Ok(if is_own { Flow::Close } else { Flow::Done })
}

/// `ACL CAT [category]`
pub(crate) fn cat(call: &mut CommandContext<'_>) -> Done {
    let Some(name) = call.args.get(2) else {
        call.reply.array(Categories::names().count());
        Categories::names().for_each(|name| call.reply.bulk(name.as_bytes()));
        return Ok(Flow::Done);
    };
    let category = std::str::from_utf8(name).ok().and_then(Categories::named);
    let Some(category) = category else {
        return Err(CommandError::quoting("ERR Unknown category '", name, usize::MAX, "'"));
    };
    let members = COMMANDS.iter().filter(|command| !command.is_parent && command.categories().meets(category));
    call.reply.array(members.clone().count());
    members.for_each(|command| call.reply.bulk(command.name.as_bytes()));
    Ok(Flow::Done)
}

/// ACL DRYRUN name command [argument …]
pub(crate) fn dryrun(call: &mut CommandContext<'_>) -> Done {
    let Some(user) = find(call, call.arg(2)) else {
        return Err(CommandError::quoting("ERR User '", call.arg(2), usize::MAX, "' not found"));
    };
    let args = call.args.skip(3);
    let known = call.known_commands();
    let row = known.as_ref().and_then(|known| known.find(args));
    let (checked, name): (_, Box<str>) = match find_for(args) {
        FoundCommand::Command(command) => match command.takes(args.len()) {
            false => return Err(arity(command.name)),
            true => (command_rights::check(user.permissions(), command, args), command.name.into()),
        },
        FoundCommand::Unknown | FoundCommand::UnknownSub(_) if row.is_none() => {
            return Err(CommandError::quoting("ERR Command '", &args[0], usize::MAX, "' not found"));
        }
        FoundCommand::Unknown | FoundCommand::UnknownSub(_) => {
            (command_rights::check_forwarded(user.permissions(), row, args), command_rights::forwarded_name(row, args))
        }
    };
    let quoted = |at: Option<usize>| {
        let argument = at.and_then(|at| args.get(at)).unwrap_or(b"*");
        String::from_utf8_lossy(argument).into_owned()
    };
    let who = format!("User {} has no permissions to", user.name);
    let text = match checked {
        Ok(()) => {
            return call.ok();
        }
        Err(Refusal::Command) => format!("{who} run the '{name}' command"),
        Err(Refusal::Key(at)) => format!("{who} access the '{}' key", quoted(at)),
        Err(Refusal::Channel(at)) => format!("{who} access the '{}' channel", quoted(Some(at))),
    };
    call.bulk(text.as_bytes())
}

/// ACL LOG [count | RESET]
pub(crate) fn log(call: &mut CommandContext<'_>) -> Done {
    let log = call.worker.app.users.log();
    let count = match call.args.get(2) {
        None => 10,
        Some(_) if call.args.len() > 3 => return Err(arity(call.command.name)),
        Some(what) if what.eq_ignore_ascii_case(b"reset") => {
            log.reset();
            return call.ok();
        }
        Some(count) => usize::try_from(integer(count)?).unwrap_or(0),
    };
    let entries = log.latest(count);
    call.reply.array(entries.len());
    entries.iter().for_each(|entry| show(call, entry));
    Ok(Flow::Done)
}

fn show(call: &mut CommandContext<'_>, entry: &AclLogEntry) {
    let millis = |time: std::time::SystemTime| {
        let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    };
    let reply = &mut call.reply;
    reply.map(10);
    let mut number = |name: &str, number: i64| {
        reply.named(name).integer(number);
    };
    number("count", i64::try_from(entry.count).unwrap_or(i64::MAX));
    let reply = &mut call.reply;
    let texts: [(&str, &[u8]); 4] = [
        ("reason", entry.reason.word().as_bytes()),
        ("context", entry.context.as_bytes()),
        ("object", &entry.object),
        ("username", entry.user.as_bytes()),
    ];
    for (name, text) in texts {
        reply.named(name).bulk(text);
    }
    reply.named("age-seconds").double(entry.created.0.elapsed().as_secs_f64());
    reply.named("client-info").bulk(entry.client.trim_end().as_bytes());
    for (name, number) in [
        ("entry-id", i64::try_from(entry.id).unwrap_or(i64::MAX)),
        ("timestamp-created", millis(entry.created.1)),
        ("timestamp-last-updated", millis(entry.updated)),
    ] {
        reply.named(name).integer(number);
    }
}

const NO_FILE: CommandError = CommandError::Static(
    "ERR This Larder instance is not configured to use a users file. You may want to set `users-file`.",
);

pub(crate) fn load(call: &mut CommandContext<'_>) -> Done {
    let users = &call.worker.app.users;
    if users.file().is_none() {
        return Err(NO_FILE);
    }
    let changed = users.load().map_err(|problems| CommandError::from(format!("ERR {}", problems.join("; "))))?;
    tracing::warn!(by = %call.session.client.peer, "ACL LOAD: the users file was read again");
    let is_own = call.worker.app.users_changed(&changed, call.session.client.id);
    call.reply.ok();
    Ok(if is_own { Flow::Close } else { Flow::Done })
}

pub(crate) fn save(call: &mut CommandContext<'_>) -> Done {
    let users = &call.worker.app.users;
    if users.file().is_none() {
        return Err(NO_FILE);
    }
    users.save().map_err(|error| {
        tracing::error!(%error, "ACL SAVE: the users file could not be written");
        CommandError::Static(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        )
    })?;
    call.ok()
}

/// `ACL GENPASS [bits]`
pub(crate) fn genpass(call: &mut CommandContext<'_>) -> Done {
    /// Bits of a hexadecimal digit.
    const DIGIT: i64 = 4;
    let bits = match call.args.get(2) {
        None => 256,
        Some(_) if call.args.len() > 3 => return Err(SYNTAX),
        Some(bits) => Some(integer(bits)?).filter(|bits| (1..=4096).contains(bits)).ok_or(CommandError::Static(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ))?,
    };
    let digits = usize::try_from((bits + DIGIT - 1) / DIGIT).unwrap_or(0);
    let mut random = vec![0; digits.div_ceil(2)];
    larder_base::identity::fill_random(&mut random)
        .map_err(|_| CommandError::Static("ERR the system gave no random numbers"))?;
    let mut text = random.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    text.truncate(digits);
    call.bulk(text.as_bytes())
}
