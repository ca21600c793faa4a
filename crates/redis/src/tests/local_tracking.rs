//! Tracking by Larder itself in front of a source that announces changes but cannot track for each
//! client.
use super::support::{Server, words};
use bytes::Bytes;
use larder_engine::Millis;
use larder_proto::resp::Args;
use larder_source::{
    BusyFor, ClientTracking, DedicatedConnection, Fetch, LocalFuture, Pace, RawReplies, RedisServer, Relay,
    ServerIdentity, Source, SourceError, SourceKind, UpstreamCommands,
};
use larder_store::StoredValue;
use std::{cell::Cell, rc::Rc, sync::Arc};

/// Has a number under every key, one more each time, and changes it behind the back of the first
/// fetch.
#[derive(Default)]
struct Restless {
    fetches: Cell<u64>,
    server: Cell<Option<Arc<larder_engine::Cache>>>,
}
impl Source for Restless {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Redis(self)
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        for fetch in batch.drain(..) {
            let number = self.fetches.get() + 1;
            self.fetches.set(number);
            if let Some(cache) = self.server.take() {
                // It is read, it changes, and only then the answer comes.
                cache.invalidate(cache.key(fetch.key()));
            }
            fetch.finish(Ok(Some(StoredValue::string(number.to_string(), None))), 1);
        }
    }
    fn put<'a>(&'a self, _: &'a [u8], _: &'a [u8], _: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        unimplemented!()
    }
    fn delete<'a>(&'a self, _: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        unimplemented!()
    }
    fn expire<'a>(&'a self, _: &'a [u8], _: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        unimplemented!()
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        unimplemented!()
    }
}
impl Relay for Restless {
    fn relay_at(&self, _: Pace, _: Bytes, _: usize, _: bool) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        unimplemented!()
    }
}
impl RedisServer for Restless {
    fn relay_isolated(
        &self,
        _: Bytes,
        _: usize,
        _: bool,
        _: bool,
        _: Option<BusyFor>,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        unimplemented!()
    }
    fn known_commands(&self) -> Option<Arc<UpstreamCommands>> {
        None
    }
    fn commands(&self) -> LocalFuture<'_, Result<Arc<UpstreamCommands>, SourceError>> {
        Box::pin(async { Ok(Arc::default()) })
    }
    fn keeps_reply(&self, _: Args<'_>, _: bool) -> Option<larder_source::CacheableReply> {
        None
    }
    fn open_dedicated<'a>(
        &'a self,
        _: Args<'a>,
        _: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>> {
        unimplemented!()
    }
    fn client_tracking(&self) -> ClientTracking {
        ClientTracking::Larder
    }
    fn database(&self) -> u32 {
        0
    }
    fn identity(&self) -> Option<Arc<ServerIdentity>> {
        Some(Arc::default())
    }
    fn credentials(&self) -> (&str, Option<larder_config::Secret>) {
        ("default", None)
    }
    fn as_user(&self, _: Option<&str>, _: Option<&str>) -> Option<Rc<dyn RedisServer>> {
        None
    }
    fn check_login(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        unimplemented!()
    }
    fn wait_identity(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn what_the_source_announces_is_told_behind_the_reply() {
    let source = Rc::new(Restless::default());
    let server = Server::with_source(&[], source.clone());
    let cache = server.worker.app.groups.default().cache.clone();
    let mut client = server.client();
    client.call(&words("HELLO 3"));
    assert_eq!(client.ask("CLIENT TRACKING ON").await, "+OK\r\n");
    assert_eq!(client.ask("GET k").await, "$1\r\n1\r\n");
    assert_eq!(client.ask("GET k").await, "$1\r\n1\r\n", "a hit");
    let changed = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    cache.invalidate(cache.key(b"k"));
    assert_eq!(client.ask("PING").await, format!("{changed}+PONG\r\n"));
    source.server.set(Some(cache.clone()));
    assert_eq!(client.ask("GET k").await, "$1\r\n2\r\n");
    assert_eq!(client.ask("PING").await, format!("{changed}+PONG\r\n"), "it came behind");
    assert_eq!(client.ask("CLIENT TRACKING OFF").await, "+OK\r\n");
    cache.invalidate(cache.key(b"k"));
    assert_eq!(client.ask("PING").await, "+PONG\r\n");
}
