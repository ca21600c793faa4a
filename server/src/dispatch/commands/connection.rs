//! The handshake and what concerns the connection itself.
use super::client::valid_name;
use crate::{
    dispatch::{
        Flow, attached,
        call::Call,
        fault::{Fault, NO_CLUSTER, SYNTAX},
        login::Login,
        password,
    },
    source::RedisServer,
};
use larder_proto::resp::parse_i64;

/// The version of Redis whose commands and replies these are; clients choose features by it. In front of a Redis it is that one's.
pub(super) const REDIS_VERSION: &str = "7.4.0";

/// `PING [message]`
pub(in crate::dispatch) fn ping(call: &mut Call<'_>) -> Result<Flow, Fault> {
    match call.args.len() {
        1 | 2 if call.session.is_subscriber() => {
            call.reply.array(2);
            call.reply.bulk(b"pong");
            call.reply.bulk(call.args.get(1).unwrap_or_default());
        }
        1 => call.reply.simple("PONG"),
        2 => call.reply.bulk(call.arg(1)),
        _ => return Err(crate::dispatch::arity(call.command.name)),
    }
    Ok(Flow::Done)
}

/// ECHO message
pub(in crate::dispatch) fn echo(call: &mut Call<'_>) -> Result<Flow, Fault> {
    call.reply.bulk(call.arg(1));
    Ok(Flow::Done)
}

/// QUIT
pub(in crate::dispatch) fn quit(call: &mut Call<'_>) -> Result<Flow, Fault> {
    call.reply.ok();
    Ok(Flow::Close)
}

/// RESET
pub(in crate::dispatch) fn reset(call: &mut Call<'_>) -> Result<Flow, Fault> {
    call.session.reset(call.worker);
    call.reply.set_resp3(false);
    call.reply.simple("RESET");
    Ok(Flow::Done)
}

/// READONLY, READWRITE: they make no difference here, and clients of a cluster send them. A Redis that is no cluster refuses them.
pub(in crate::dispatch) fn accept(call: &mut Call<'_>) -> Result<Flow, Fault> {
    match call.group().source.as_redis().is_some_and(RedisServer::is_single) {
        true => Err(NO_CLUSTER),
        false => {
            call.reply.ok();
            Ok(Flow::Done)
        }
    }
}

/// What `AUTH [user] password` says.
pub(in crate::dispatch) fn login<'a>(call: &Call<'a>) -> Result<Login<'a>, Fault> {
    match call.args.len() {
        2 => Ok(Login { user: None, password: call.arg(1) }),
        3 => Ok(Login { user: Some(call.arg(1)), password: call.arg(2) }),
        _ => Err(SYNTAX),
    }
}

/// `AUTH [user] password`
pub(in crate::dispatch) fn auth(call: &mut Call<'_>) -> Result<Flow, Fault> {
    let settings = &call.worker.app.settings;
    let login = login(call)?;
    if login.is_for_redis(call) {
        return attached::later(call);
    }
    let single = call.group().source.as_redis().is_some_and(RedisServer::is_single);
    if login.user.is_none() && !password::is_required(settings) && !single {
        return Err(Fault::Said(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ));
    }
    check(call, login)?;
    call.reply.ok();
    Ok(Flow::Done)
}

fn check(call: &mut Call<'_>, login: Login<'_>) -> Result<(), Fault> {
    let settings = &call.worker.app.settings;
    let single = call.group().source.as_redis().is_some_and(RedisServer::is_single);
    // Of a Redis: it says what Larder itself says there.
    if password::is_required(settings) || !single {
        password::check(settings, login.user.unwrap_or(password::USER), login.password)?;
    }
    call.session.authenticate(true);
    Ok(())
}

/// What HELLO says.
pub(in crate::dispatch) struct Hello<'a> {
    pub(in crate::dispatch) resp3: Option<bool>,
    pub(in crate::dispatch) login: Option<Login<'a>>,
    name: Option<&'a str>,
}
impl<'a> Hello<'a> {
    pub(in crate::dispatch) fn parse(call: &Call<'a>) -> Result<Hello<'a>, Fault> {
        let resp3 = match call.args.get(1).map(parse_i64) {
            None => None,
            Some(Some(2)) => Some(false),
            Some(Some(3)) => Some(true),
            Some(Some(_)) => return Err(Fault::Said("NOPROTO unsupported protocol version")),
            Some(None) => {
                return Err(Fault::Said("ERR Protocol version is not an integer or out of range"));
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
                return Err(Fault::quoting("ERR Syntax error in HELLO option '", option, usize::MAX, "'"));
            }
        }
        Ok(hello)
    }
    pub(in crate::dispatch) fn set_name(&self, call: &Call<'_>) {
        if let Some(name) = self.name {
            call.session.client.about.lock().name = name.into();
        }
    }
}

/// HELLO [2 | 3 [AUTH user password] [SETNAME name]]
pub(in crate::dispatch) fn hello(call: &mut Call<'_>) -> Result<Flow, Fault> {
    let hello = Hello::parse(call)?;
    match hello.login {
        Some(login) if login.is_for_redis(call) => return attached::later(call),
        Some(login) => check(call, login)?,
        None => {}
    }
    if !call.session.authenticated() {
        return Err(Fault::Said(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
             AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
             protocol version at the same time",
        ));
    }
    hello.set_name(call);
    match hello.resp3.filter(|resp3| *resp3 != call.session.resp3) {
        // Its own connection is to speak the same.
        Some(_) if call.session.pinned.is_some() => attached::later(call),
        // Which Redis it is, its first connection will tell.
        _ if !call.nested && call.group().source.as_redis().is_some_and(|server| server.identity().is_none()) => {
            attached::later(call)
        }
        resp3 => {
            welcome(call, resp3.unwrap_or(call.session.resp3));
            Ok(Flow::Done)
        }
    }
}

/// From here on the client is answered in this protocol, the reply to HELLO included.
pub(in crate::dispatch) fn welcome(call: &mut Call<'_>, resp3: bool) {
    call.session.set_resp3(resp3);
    call.reply.set_resp3(resp3);
    let identity = call.group().source.as_redis().map(|server| server.identity().unwrap_or_default());
    let (server, version, role) = match &identity {
        Some(redis) => (&*redis.server, &*redis.version, &*redis.role),
        // Clients compare the name.
        None => ("redis", REDIS_VERSION, "master"),
    };
    let reply = &mut call.reply;
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(server.as_bytes());
    reply.bulk(b"version");
    reply.bulk(version.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(call.session.client.id as i64);
    reply.bulk(b"mode");
    // A cluster behind Larder is one server to its clients.
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(role.as_bytes());
    reply.bulk(b"modules");
    reply.array(0);
}
