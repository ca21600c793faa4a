//! The handshake (HELLO, AUTH), SELECT, and commands on the connection itself. The functions `…_later`
//! wait: for an upstream Redis, or for a password that takes long to compare.
use crate::{
    auth,
    command_context::CommandContext,
    command_outcome::{CommandError, CommandResult, DB_INDEX, Done, Flow, NO_CLUSTER, SYNTAX, arity, int},
    commands::client::valid_name,
    emulated_cluster::redis_mode,
    upstream::{login::Login, replies::is_error, requests},
};
use larder_base::identity::{DEFAULT_USER, User};
use larder_proto::resp::{Args, encode, parse_i64};
use larder_source::RedisServer;
use std::sync::Arc;

/// The version of Redis whose commands and replies Larder has. Clients choose features by it. In
/// front of a Redis, that Redis's version is shown instead.
pub(super) const REDIS_VERSION: &str = "7.4.0";

/// `PING [message]`
pub(crate) fn ping(call: &mut CommandContext<'_>) -> Done {
    match call.args.len() {
        1 | 2 if call.session.is_subscriber() => {
            call.reply.array(2);
            call.reply.named("pong").bulk(call.args.get(1).unwrap_or_default());
        }
        1 => call.reply.simple("PONG"),
        2 => call.reply.bulk(call.arg(1)),
        _ => return Err(arity(call.command.name)),
    }
    Ok(Flow::Done)
}

pub(crate) fn echo(call: &mut CommandContext<'_>) -> Done {
    call.bulk(call.arg(1))
}

pub(crate) fn quit(call: &mut CommandContext<'_>) -> Done {
    call.reply.ok();
    Ok(Flow::Close)
}

pub(crate) fn reset(call: &mut CommandContext<'_>) -> Done {
    call.session.reset(call.worker);
    call.reply.set_resp3(false);
    call.simple("RESET")
}

/// ASKING, READONLY, READWRITE: accepted without effect, because cluster clients send them. A Redis
/// that is not a cluster refuses them.
pub(crate) fn accept(call: &mut CommandContext<'_>) -> Done {
    let emulates = call.worker.app.settings.emulates_cluster;
    if !emulates && call.redis().is_some_and(RedisServer::is_single) { Err(NO_CLUSTER) } else { call.ok() }
}

/// The credentials in `AUTH [user] password`.
pub(crate) fn login<'a>(call: &CommandContext<'a>) -> Result<Login<'a>, CommandError> {
    match call.args.len() {
        2 => Ok(Login { user: None, password: call.arg(1) }),
        3 => Ok(Login { user: Some(call.arg(1)), password: call.arg(2) }),
        _ => Err(SYNTAX),
    }
}

/// `AUTH [user] password`
pub(crate) fn auth(call: &mut CommandContext<'_>) -> Done {
    let login = login(call)?;
    if login.is_for_redis(call) {
        return call.alone();
    }
    let single = call.redis().is_some_and(RedisServer::is_single);
    let users = &call.worker.app.users;
    if login.user.is_none() && !single && users.default_user().has_no_password() && !users.take_tokens() {
        return Err(CommandError::Static(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ));
    }
    if check(call, login)?.is_some() {
        return call.alone();
    }
    call.ok()
}

/// Logs the client in. Returns the user if the password must be compared apart from other work.
pub(super) fn check(call: &mut CommandContext<'_>, login: Login<'_>) -> Result<Option<Arc<User>>, CommandError> {
    let single = call.redis().is_some_and(RedisServer::is_single);
    if call.worker.app.users.are_own() || !single {
        return auth::check(call, login.user.unwrap_or(DEFAULT_USER.as_bytes()), login.password);
    }
    // In front of a Redis, these are the credentials that Larder itself uses there.
    call.session.authenticate(true);
    Ok(None)
}

pub(crate) struct Hello<'a> {
    pub(crate) resp3: Option<bool>,
    pub(crate) login: Option<Login<'a>>,
    name: Option<&'a str>,
}
impl<'a> Hello<'a> {
    pub(crate) fn parse(call: &CommandContext<'a>) -> Result<Hello<'a>, CommandError> {
        let resp3 = match call.args.get(1).map(parse_i64) {
            None => None,
            Some(Some(2)) => Some(false),
            Some(Some(3)) => Some(true),
            Some(Some(_)) => return Err(CommandError::Static("NOPROTO unsupported protocol version")),
            Some(None) => {
                return Err(CommandError::Static("ERR Protocol version is not an integer or out of range"));
            }
        };
        let mut hello = Hello { resp3, login: None, name: None };
        let mut parts = call.args.from(2);
        while let Some(option) = parts.next() {
            if option.eq_ignore_ascii_case(b"auth") && parts.len() >= 2 {
                let (user, password) = (parts.next(), parts.next().unwrap_or(b""));
                hello.login = Some(Login { user, password });
            } else if option.eq_ignore_ascii_case(b"setname") && parts.len() >= 1 {
                hello.name = Some(valid_name(parts.next().unwrap_or(b""))?);
            } else {
                return Err(CommandError::quoting("ERR Syntax error in HELLO option '", option, usize::MAX, "'"));
            }
        }
        Ok(hello)
    }
    pub(crate) fn set_name(&self, call: &mut CommandContext<'_>) {
        if let Some(name) = self.name {
            call.session.change_names(|about| about.name = name.into());
        }
    }
}

/// HELLO [2 | 3 [AUTH user password] [SETNAME name]]
pub(crate) fn hello(call: &mut CommandContext<'_>) -> Done {
    let hello = Hello::parse(call)?;
    match hello.login {
        Some(login) if login.is_for_redis(call) => return call.alone(),
        Some(login) if check(call, login)?.is_some() => return call.alone(),
        Some(_) | None => {}
    }
    if !call.session.authenticated {
        return Err(CommandError::Static(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
             AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
             protocol version at the same time",
        ));
    }
    hello.set_name(call);
    match hello.resp3.filter(|resp3| *resp3 != call.session.resp3) {
        // The dedicated connection must change its protocol too.
        Some(_) if call.session.dedicated.is_some() => call.alone(),
        // The first connection to Redis will tell which Redis it is.
        _ if !call.nested && call.redis().is_some_and(|server| server.identity().is_none()) => call.alone(),
        resp3 => {
            welcome(call, resp3.unwrap_or(call.session.resp3));
            Ok(Flow::Done)
        }
    }
}

/// Changes the client's protocol, the reply to HELLO included.
pub(crate) fn welcome(call: &mut CommandContext<'_>, resp3: bool) {
    call.session.set_resp3(resp3);
    call.reply.set_resp3(resp3);
    let identity = call.redis().map(|server| server.identity().unwrap_or_default());
    let (server, version, role) = match &identity {
        Some(redis) => (&*redis.server, &*redis.version, &*redis.role),
        // Clients compare this name.
        None => ("redis", REDIS_VERSION, "master"),
    };
    let reply = &mut call.reply;
    reply.map(7);
    reply.named("server").bulk(server.as_bytes());
    reply.named("version").bulk(version.as_bytes());
    reply.named("proto").integer(if resp3 { 3 } else { 2 });
    reply.named("id").integer(call.session.client.id as i64);
    reply.bulk(b"mode");
    // A cluster behind Larder looks like one server to its clients, unless `cluster` says otherwise.
    reply.named(redis_mode(call.worker)).bulk(b"role");
    reply.bulk(role.as_bytes());
    reply.named("modules").array(0);
}

pub(crate) fn select(call: &mut CommandContext<'_>) -> Done {
    let index = int(call.arg(1))?;
    if index != 0 && call.worker.app.settings.emulates_cluster {
        return Err(CommandError::Static("ERR SELECT is not allowed in cluster mode"));
    }
    let home = call.redis().map(RedisServer::database);
    match (home, u32::try_from(index)) {
        (None, Ok(0)) => {}
        (Some(home), Ok(index)) if index == call.session.upstream.database.unwrap_or(home) => {}
        (Some(_), Ok(_)) => return call.alone(),
        (_, Err(_)) | (None, Ok(_)) => return Err(DB_INDEX),
    }
    call.ok()
}

/// SELECT of another database, on the client's dedicated connection.
pub(crate) async fn select_later(call: &mut CommandContext<'_>) -> Done {
    let replies = requests::ask(call, requests::encoded(call.args)).await?;
    note_database(call, call.args, &replies[0]);
    call.pass_on(&replies);
    call.session.release_dedicated();
    Ok(Flow::Done)
}

/// Notes the database after `SELECT index`, alone or in a transaction.
pub(crate) fn note_database(call: &mut CommandContext<'_>, args: Args<'_>, reply: &[u8]) {
    if reply == b"+OK\r\n" {
        let home = call.redis().map(RedisServer::database);
        let index = args.get(1).and_then(|index| u32::try_from(int(index).ok()?).ok());
        call.session.change().upstream.database = index.filter(|index| Some(*index) != home);
        call.session.client.about.lock().database = index.unwrap_or_default();
    }
}

/// AUTH of a user that Redis knows.
pub(crate) async fn auth_later(call: &mut CommandContext<'_>) -> Done {
    let login = login(call)?;
    if login.is_for_redis(call) {
        login.log_in(call).await?
    } else {
        compare(call, login).await?
    }
    call.reply.ok();
    call.session.note_subscriptions();
    Ok(Flow::Done)
}

/// Logs in a user of Larder's own whose password takes long to compare.
async fn compare(call: &mut CommandContext<'_>, login: Login<'_>) -> Result<(), CommandError> {
    match check(call, login)? {
        Some(user) => auth::compare(call, user, login.password).await,
        None => Ok(()),
    }
}

pub(crate) async fn hello_later(call: &mut CommandContext<'_>) -> Done {
    greet(call).await?;
    call.session.note_subscriptions();
    Ok(Flow::Done)
}
async fn greet(call: &mut CommandContext<'_>) -> CommandResult {
    if let Some(server) = call.redis() {
        server.wait_identity().await;
    }
    let hello = Hello::parse(call)?;
    let resp3 = hello.resp3.unwrap_or(call.session.resp3);
    match hello.login {
        Some(login) if login.is_for_redis(call) => login.log_in(call).await?,
        Some(login) if !call.session.authenticated || call.worker.app.users.are_own() => compare(call, login).await?,
        Some(_) | None => {}
    }
    hello.set_name(call);
    if resp3 == call.session.resp3 || call.session.dedicated.is_none() {
        welcome(call, resp3);
        return Ok(());
    }
    let replies = requests::ask(call, encode(&[b"HELLO", if resp3 { b"3" } else { b"2" }])).await?;
    if is_error(&replies[0]) {
        call.pass_on(&replies);
        return Ok(());
    }
    call.session.skip_replies(0, call.reply.output());
    if let Some(dedicated) = &mut call.session.change().dedicated {
        dedicated.note_protocol(resp3);
    }
    welcome(call, resp3);
    Ok(())
}
