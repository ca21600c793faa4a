//! The user of a client at an upstream Redis.
use larder_base::identity::UserRights;
use larder_source::RedisServer;
use std::{rc::Rc, sync::Arc};

/// A user other than Larder's own, or any user with `auth = "passthrough"`.
pub(crate) struct UpstreamUser {
    /// The server, over connections as this user, which its clients share.
    pub(crate) server: Rc<dyn RedisServer>,
    /// What the user may do. `None`: only Redis knows, so every command on data goes there.
    pub(crate) rights: Option<Arc<UserRights>>,
}
