//! A client that was there before an attack: it is still served, and all buffers together stay
//! within their bound.
use super::{
    common::{Client, Reply},
    larder::Larder,
};

/// The bound on all buffers in the tests of attacks.
pub const BUFFERS: f64 = 33_554_432.0;
/// A server under attack.
pub const ARGS: [&str; 3] = ["--max-buffers=32MiB", "--max-memory=32MiB", "--threads=2"];

pub struct Established<'l> {
    larder: &'l Larder,
    client: Client,
    rounds: usize,
}

impl Established<'_> {
    pub fn of(larder: &Larder) -> Established<'_> {
        let mut established = Established { larder, client: larder.client(), rounds: 0 };
        established.is_served();
        established
    }

    /// It is served over both protocols, and nothing holds more than it may.
    #[track_caller]
    pub fn is_served(&mut self) {
        self.rounds += 1;
        let value = format!("value{}", self.rounds);
        assert_eq!(self.client.command(&["SET", "established", &value]), Reply::ok());
        assert_eq!(self.client.command(&["GET", "established"]), Reply::bulk(&value));
        let request = "GET /v1/kv/established HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let (status, _, body) = self.larder.http(request);
        assert_eq!((status, body), (200, value.into_bytes()));
        let held = self.larder.metric("larder_buffers_bytes");
        assert!(held <= BUFFERS, "all buffers together hold {held} bytes");
    }
}
