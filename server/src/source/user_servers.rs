//! One core's connections to a Redis as users other than Larder's own. All clients of a user share them.
use super::redis_server_trait::RedisServer;
use crate::config::Secret;
use std::{
    cell::RefCell,
    collections::HashMap,
    rc::{Rc, Weak},
};

/// The servers as users, while a client holds them.
#[derive(Default)]
pub struct UserServers(RefCell<HashMap<Option<Box<str>>, ServerOfUser>>);

struct ServerOfUser {
    password: Option<Secret>,
    server: Weak<dyn RedisServer>,
}

impl UserServers {
    /// The server as this user ([`RedisServer::as_user`]); a password that is new gets connections of its own.
    pub fn of(
        &self,
        server: &dyn RedisServer,
        user: Option<&str>,
        password: Option<&str>,
    ) -> Option<Rc<dyn RedisServer>> {
        let mut all = self.0.borrow_mut();
        let name: Option<Box<str>> = user.map(Into::into);
        let password_of = |known: &ServerOfUser| known.password.as_deref() == password;
        if let Some(known) = all.get(&name).filter(|known| password_of(known)).and_then(|known| known.server.upgrade())
        {
            return Some(known);
        }
        all.retain(|_, known| known.server.strong_count() > 0);
        let opened = server.as_user(user, password)?;
        all.insert(name, ServerOfUser { password: password.map(Secret::from), server: Rc::downgrade(&opened) });
        Some(opened)
    }
}
