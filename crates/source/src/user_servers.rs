//! One core's connections to a Redis as users other than Larder's own. All clients of a user share
//! them.
use super::redis_server_trait::RedisServer;
use larder_config::Secret;
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
    /// The server as this user and with this password, if a client holds it.
    pub fn find(&self, user: Option<&str>, password: Option<&str>) -> Option<Rc<dyn RedisServer>> {
        let all = self.0.borrow();
        let known = all.get(&user.map(Into::into)).filter(|known| known.password.as_deref() == password)?;
        known.server.upgrade()
    }
    /// Keeps the server as this user, for the next client of the user. Call it once the server has
    /// let the user in.
    pub fn keep(&self, user: Option<&str>, password: Option<&str>, server: &Rc<dyn RedisServer>) {
        let mut all = self.0.borrow_mut();
        all.retain(|_, known| known.server.strong_count() > 0);
        let known = ServerOfUser { password: password.map(Secret::from), server: Rc::downgrade(server) };
        all.insert(user.map(Into::into), known);
    }
}
