//! The body of `POST /v1/mget`.
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;

/// `{"keys":["a",{"base64":"/w=="}]}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WantedKeys {
    keys: Vec<WantedKey>,
}

/// A key, as text or, where it is not UTF-8, as base64.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum WantedKey {
    Text(String),
    Bytes(Encoded),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    base64: String,
}

impl WantedKeys {
    /// Reads a body. The error says what is wrong with it.
    pub(super) fn parse(body: &[u8]) -> Result<WantedKeys, String> {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
    pub(super) fn into_keys(self) -> Result<Vec<Vec<u8>>, String> {
        let bytes = |key| match key {
            WantedKey::Text(text) => Ok(text.into_bytes()),
            WantedKey::Bytes(key) => BASE64_STANDARD.decode(key.base64).map_err(|error| error.to_string()),
        };
        self.keys.into_iter().map(bytes).collect()
    }
}
