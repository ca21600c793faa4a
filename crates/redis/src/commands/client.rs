//! CLIENT: names, lists, pauses, unblocks and closes connections.
use crate::{
    auth,
    command_context::CommandContext,
    command_lookup::COMMANDS,
    command_outcome::{CommandError, Done, Flow, SYNTAX, c_str, integer},
    forwarded_commands::FORWARDED,
    session::ReplyMode,
    upstream::requests,
};
use larder_base::lifecycle::pause::Paused;
use larder_config::Address;
use larder_core::{
    clients::{Client, Tracks},
    read::Group,
};
use larder_engine::Millis;
use larder_proto::resp;
use larder_source::UpstreamCommands;
use std::{
    fmt::Write as _,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// Checks text that CLIENT LIST will show, so that it cannot break the list.
pub(super) fn valid_name(name: &[u8]) -> Result<&str, CommandError> {
    check_length(name)?;
    printable(name)
        .ok_or(CommandError::Static("ERR Client names cannot contain spaces, newlines or special characters."))
}
/// Refuses names that are longer than those of clients, libraries and users may be.
pub(super) fn check_length(name: &[u8]) -> Result<(), CommandError> {
    match name.len() > MAX_NAME {
        true => Err(CommandError::from(format!("ERR a name has at most {MAX_NAME} bytes"))),
        false => Ok(()),
    }
}
/// Longest name of a client, of its library, or of a user that a client makes. Lists, logs and the console show and keep them.
const MAX_NAME: usize = 1024;

fn printable(text: &[u8]) -> Option<&str> {
    let fine = text.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(text).ok().filter(|_| fine)
}

pub(crate) fn id(call: &mut CommandContext<'_>) -> Done {
    call.integer(call.session.client.id as i64)
}

pub(crate) fn setname(call: &mut CommandContext<'_>) -> Done {
    let name = valid_name(call.arg(2))?;
    call.session.change_names(|about| about.name = name.into());
    call.ok()
}

pub(crate) fn getname(call: &mut CommandContext<'_>) -> Done {
    let name = call.session.client.about.lock().name.clone();
    if name.is_empty() {
        call.reply.null()
    } else {
        call.reply.bulk(name.as_bytes())
    }
    Ok(Flow::Done)
}

/// CLIENT SETINFO LIB-NAME | LIB-VER value
pub(crate) fn setinfo(call: &mut CommandContext<'_>) -> Done {
    let option = call.arg(2);
    let is_name = option.eq_ignore_ascii_case(b"lib-name");
    if !is_name && !option.eq_ignore_ascii_case(b"lib-ver") {
        return Err(CommandError::quoting("ERR Unrecognized option '", option, usize::MAX, "'"));
    }
    check_length(call.arg(3))?;
    let Some(value) = printable(call.arg(3)) else {
        let why = " cannot contain spaces, newlines or special characters.";
        return Err(CommandError::quoting("ERR ", option, usize::MAX, why));
    };
    call.session.change_names(|about| match is_name {
        true => about.lib_name = value.into(),
        false => about.lib_version = value.into(),
    });
    call.ok()
}

/// CLIENT NO-EVICT, NO-TOUCH on | off: accepted without effect. Larder evicts no clients, and every
/// read counts for the policy.
pub(crate) fn on_or_off(call: &mut CommandContext<'_>) -> Done {
    let mode = call.arg(2);
    if mode.eq_ignore_ascii_case(b"on") || mode.eq_ignore_ascii_case(b"off") { call.ok() } else { Err(SYNTAX) }
}

/// CLIENT REPLY ON | OFF | SKIP
pub(crate) fn reply(call: &mut CommandContext<'_>) -> Done {
    let mode = call.arg(2);
    let is = |name: &str| mode.eq_ignore_ascii_case(name.as_bytes());
    if is("on") {
        call.session.set_replies(ReplyMode::On);
        return call.ok();
    }
    let replies = match () {
        () if is("off") => ReplyMode::Off,
        () if is("skip") => ReplyMode::SkipNext,
        () => return Err(SYNTAX),
    };
    call.session.set_replies(replies);
    Ok(Flow::Done)
}

pub(crate) fn info(call: &mut CommandContext<'_>) -> Done {
    let mut text = String::new();
    describe(&mut text, &call.session.client, call.now, known(call).as_deref());
    call.verbatim(text.as_bytes())
}

/// CLIENT LIST [TYPE type | ID id …]
pub(crate) fn list(call: &mut CommandContext<'_>) -> Done {
    let clients = &call.worker.app.clients;
    let selected = match call.args.get(2) {
        None => clients.list(),
        Some(option) if call.args.len() == 4 && option.eq_ignore_ascii_case(b"type") => {
            let kind = Type::named(call.arg(3))?;
            clients.list().into_iter().filter(|client| Type::of(client) == kind).collect()
        }
        Some(option) if call.args.len() > 3 && option.eq_ignore_ascii_case(b"id") => {
            let id = |text| integer(text).map_err(|_| CommandError::Static("ERR Invalid client ID"));
            let ids: Vec<i64> = call.args.from(3).map(id).collect::<Result<_, _>>()?;
            ids.into_iter().filter_map(|id| clients.get(u64::try_from(id).ok()?)).collect()
        }
        Some(_) => return Err(SYNTAX),
    };
    let (mut lines, mut line) = (call.reply.output().beside(), String::new());
    let known = known(call);
    for client in selected {
        line.clear();
        describe(&mut line, &client, call.now, known.as_deref());
        lines.put(line.as_bytes());
        if lines.is_refused() {
            break;
        }
    }
    call.reply.verbatim_of(&mut lines);
    Ok(Flow::Done)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Normal,
    PubSub,
    /// A replica, or a master, which no client is.
    Server,
}
impl Type {
    fn named(name: &[u8]) -> Result<Type, CommandError> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Type::Normal),
            b"pubsub" => Ok(Type::PubSub),
            b"master" | b"slave" | b"replica" => Ok(Type::Server),
            _ => Err(CommandError::quoting("ERR Unknown client type '", name, usize::MAX, "'")),
        }
    }
    fn of(client: &Client) -> Type {
        if client.is_replica.load(Relaxed) {
            Type::Server
        } else if client.subscribed.load(Relaxed) {
            Type::PubSub
        } else {
            Type::Normal
        }
    }
}

/// CLIENT KILL address | [ID id] [ADDR a] [LADDR a] [TYPE t] [USER u] [SKIPME yes|no] [MAXAGE s]
pub(crate) fn kill(call: &mut CommandContext<'_>) -> Done {
    let old_form = call.args.len() == 3;
    let filter = match old_form {
        true => Filter { address: Some(call.arg(2)), skip_me: false, ..Filter::default() },
        false => Filter::parse(call)?,
    };
    let me = call.session.client.id;
    let (mut killed, mut myself) = (0, false);
    for client in call.worker.app.clients.list() {
        if filter.selects(&client, me, call.now) {
            killed += 1;
            if client.id == me { myself = true } else { client.close() }
        }
    }
    match (old_form, killed) {
        (true, 0) => return Err(CommandError::Static("ERR No such client")),
        (true, _) => call.reply.ok(),
        (false, _) => call.reply.integer(killed),
    }
    if myself { Ok(Flow::Close) } else { Ok(Flow::Done) }
}

#[derive(Debug, Default)]
struct Filter<'a> {
    id: Option<i64>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    kind: Option<Type>,
    user: Option<&'a [u8]>,
    skip_me: bool,
    max_age: Option<i64>,
}
impl<'a> Filter<'a> {
    fn parse(call: &CommandContext<'a>) -> Result<Filter<'a>, CommandError> {
        let positive = |text: &[u8], why| match integer(text) {
            Ok(value) if value > 0 => Ok(Some(value)),
            _ => Err(CommandError::Static(why)),
        };
        let mut filter = Filter { skip_me: true, ..Filter::default() };
        let mut parts = call.args.from(2);
        while let Some(option) = parts.next() {
            let value = parts.next().ok_or(SYNTAX)?;
            match option.to_ascii_lowercase().as_slice() {
                b"id" => filter.id = positive(value, "ERR client-id should be greater than 0")?,
                b"addr" => filter.address = Some(value),
                b"laddr" => filter.local = Some(value),
                b"type" => filter.kind = Some(Type::named(value)?),
                // Only Redis knows which users exist.
                b"user" if auth::exists(call, value) || call.redis().is_some() => {
                    filter.user = Some(value);
                }
                b"user" => {
                    return Err(CommandError::quoting("ERR No such user '", value, usize::MAX, "'"));
                }
                b"skipme" => {
                    filter.skip_me = match value.to_ascii_lowercase().as_slice() {
                        b"yes" => true,
                        b"no" => false,
                        _ => return Err(SYNTAX),
                    };
                }
                b"maxage" => {
                    integer(value)?;
                    filter.max_age = positive(value, "ERR maxage should be greater than 0")?;
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(filter)
    }
    fn selects(&self, client: &Client, me: u64, now: Millis) -> bool {
        let is = |wanted: Option<&[u8]>, address: &Address| {
            wanted.is_none_or(|wanted| c_str(wanted, usize::MAX) == address.for_redis().as_bytes())
        };
        let age = now.saturating_sub(client.connected) / 1000;
        self.kind.is_none_or(|kind| kind == Type::of(client))
            && self.user.is_none_or(|user| user == client.about.lock().user.as_bytes())
            && self.id.is_none_or(|id| id as u64 == client.id)
            && is(self.address, &client.peer)
            && is(self.local, &client.local)
            && self.max_age.is_none_or(|max| age >= max as u64)
            && !(self.skip_me && client.id == me)
    }
}

/// The source's command table, which has the names of forwarded commands.
fn known(call: &CommandContext<'_>) -> Option<Arc<UpstreamCommands>> {
    call.redis()?.known_commands()
}

/// The name of a client's last command, for those outside of this room.
pub fn last_command(client: &Client, group: &Group) -> Option<String> {
    let known = group.source.as_redis().and_then(|redis| redis.known_commands());
    command_of(client, known.as_deref()).map(str::to_owned)
}

fn command_of<'a>(client: &Client, known: Option<&'a UpstreamCommands>) -> Option<&'a str> {
    match client.command.load(Relaxed) {
        index if index == FORWARDED.index => {
            client.forwarded.see(|name, sub| known?.find_named(name, Some(sub))).map(|command| &*command.name)
        }
        index => COMMANDS.get(usize::from(index)).map(|command| command.name),
    }
}

/// The client as CLIENT LIST shows it.
pub(crate) fn line(client: &Client, now: Millis) -> String {
    let mut text = String::new();
    describe(&mut text, client, now, None);
    text
}

/// A line of CLIENT LIST. Fields without a meaning here are kept if client libraries read them.
fn describe(text: &mut String, client: &Client, now: Millis, known: Option<&UpstreamCommands>) {
    let about = client.about.lock().clone();
    let command = command_of(client, known).unwrap_or("NULL");
    let seconds_since = |then: Millis| now.saturating_sub(then) / 1000;
    let multi = about.queued.map_or(-1, |queued| queued as i64);
    let tracks = |is: fn(&Tracks) -> bool| about.tracking.as_ref().is_some_and(is);
    let states = [
        (client.subscribed.load(Relaxed), 'P'),
        (about.queued.is_some(), 'x'),
        (client.blocked.load(Relaxed), 'b'),
        (about.tracking.is_some(), 't'),
        (tracks(|tracks| tracks.broken), 'R'),
        (tracks(|tracks| tracks.bcast), 'B'),
        (client.local.path().is_some(), 'U'),
    ];
    let [channels, patterns, shard_channels] = about.subscriptions;
    let redirect = about.tracking.map_or(-1, |tracks| tracks.redirect as i64);
    let mut flags: String = states.into_iter().filter_map(|(is, flag)| is.then_some(flag)).collect();
    if flags.is_empty() {
        flags.push('N');
    }
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={} db={} sub={channels} psub={patterns} ssub={shard_channels} multi={multi} watch=0 \
         qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={command} \
         user={} redir={redirect} resp={} lib-name={} lib-ver={}",
        client.id,
        client.peer.for_redis(),
        client.local.for_redis(),
        about.name,
        seconds_since(client.connected),
        seconds_since(client.active()),
        flags,
        about.database,
        about.user,
        about.protocol,
        about.lib_name,
        about.lib_version,
    );
}

/// `CLIENT PAUSE milliseconds [WRITE | ALL]`
pub(crate) fn pause(call: &mut CommandContext<'_>) -> Done {
    let what = match call.args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        _ if call.args.len() > 4 => {
            return Err(CommandError::quoting(
                "ERR unknown subcommand or wrong number of arguments for '",
                call.arg(1),
                128,
                "'. Try CLIENT HELP.",
            ));
        }
        None | Some(b"all") => Paused::All,
        Some(b"write") => Paused::Writes,
        Some(_) => return Err(CommandError::Static("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let time =
        integer(call.arg(2)).map_err(|_| CommandError::Static("ERR timeout is not an integer or out of range"))?;
    let time = u64::try_from(time).map_err(|_| CommandError::Static("ERR timeout is negative"))?;
    call.worker.app.gate.pause.begin(call.now.saturating_add(time), what);
    call.reply.ok();
    Ok(Flow::Paused)
}

pub(crate) fn unpause(call: &mut CommandContext<'_>) -> Done {
    call.worker.app.gate.pause.end();
    call.ok()
}

/// `CLIENT UNBLOCK id [TIMEOUT | ERROR]`
pub(crate) fn unblock(call: &mut CommandContext<'_>) -> Done {
    let reason = call.args.get(3).unwrap_or(b"timeout");
    if call.args.len() > 4 || !(reason.eq_ignore_ascii_case(b"timeout") || reason.eq_ignore_ascii_case(b"error")) {
        return Err(CommandError::Static("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
    }
    if waits_on(call)?.is_some() {
        return call.alone();
    }
    call.integer(0)
}

/// The upstream connection on which the named client waits.
fn waits_on(call: &CommandContext<'_>) -> Result<Option<i64>, CommandError> {
    let id = integer(call.arg(2))?;
    let client = u64::try_from(id).ok().and_then(|id| call.worker.app.clients.get(id));
    Ok(client.and_then(|client| {
        let mut about = client.about.lock();
        let waits = about.waits.as_mut()?;
        waits.unblocked = true;
        Some(waits.connection)
    }))
}

/// Asks the upstream to end the wait.
pub(crate) async fn unblocked(call: &mut CommandContext<'_>) -> Done {
    let Some(connection) = waits_on(call)? else {
        // The blocking command was answered meanwhile.
        return call.integer(0);
    };
    let connection = connection.to_string();
    let reason = call.args.get(3).unwrap_or(b"timeout");
    let command = resp::encode(&[b"CLIENT", b"UNBLOCK", connection.as_bytes(), reason]);
    let replies = requests::own_server(call)?.relay(command.into(), 1, call.session.resp3).await?;
    call.session.pass_part(replies.last(), call.reply.output());
    Ok(Flow::Done)
}
