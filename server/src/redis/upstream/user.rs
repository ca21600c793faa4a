//! The user of a client at an upstream Redis.
use crate::{identity::UserRights, source::RedisServer};
use std::{rc::Rc, sync::Arc};

/// A user other than Larder's own, or any user with `auth = "passthrough"`.
pub(in crate::redis) struct UpstreamUser {
    /// The server, over connections as this user, which its clients share.
    pub(in crate::redis) server: Rc<dyn RedisServer>,
    /// What the user may do. `None`: only Redis knows, so every command on data goes there.
    pub(in crate::redis) rights: Option<Arc<UserRights>>,
}
