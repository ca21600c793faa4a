//! Who a token says the client is: the rules of the settings, and the tokens that were verified
//! before.
use super::{
    key_set::KeySet,
    signed_token::{SignedToken, looks_like_token},
    token_error::TokenError,
};
use larder_config::{JwtSettings, read_short_file};
use larder_engine::Millis;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::{collections::HashMap, sync::Arc};

/// How far the issuer's clock and this one may be apart.
const LEEWAY: Millis = 30_000;
/// Longest file of keys.
const LONGEST_FILE: u64 = 1024 * 1024;
/// Tokens that are remembered. When there are more, those that have ended are forgotten, and then
/// all.
const REMEMBERED: usize = 4096;

/// Verifies tokens. Each is verified once; then its hash says who it is, until it ends or the keys
/// are read again.
#[derive(Debug)]
pub(in crate::identity) struct TokenVerifier {
    settings: JwtSettings,
    state: Mutex<State>,
}
#[derive(Debug, Default)]
struct State {
    keys: Arc<KeySet>,
    /// By SHA-256. Only tokens that were verified with `keys`.
    verified: HashMap<[u8; 32], VerifiedToken>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::identity) struct VerifiedToken {
    pub(in crate::identity) user: Arc<str>,
    /// From then on it counts no more.
    pub(in crate::identity) ends: Millis,
}

impl TokenVerifier {
    /// Without keys: [`Self::keys_of_file`] and [`Self::replace_keys`] have to follow.
    pub(in crate::identity) fn new(settings: JwtSettings) -> TokenVerifier {
        TokenVerifier { settings, state: Mutex::default() }
    }

    /// Reads the file of keys.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(in crate::identity) fn keys_of_file(&self) -> Result<KeySet, String> {
        let path = &self.settings.jwks;
        let cannot = |why: String| format!("cannot read {}: {why} (jwt-jwks)", path.display());
        let text = read_short_file(path, LONGEST_FILE).map_err(|error| cannot(error.to_string()))?;
        let text = text.ok_or_else(|| cannot("the file is longer than 1 MiB".to_owned()))?;
        KeySet::parse(&text).map_err(cannot)
    }
    /// Verifies with these keys from now on. Tokens that were verified with others are verified
    /// again.
    pub(in crate::identity) fn replace_keys(&self, keys: KeySet) {
        for left_out in &keys.left_out {
            tracing::warn!("a key of jwt-jwks is not used: {left_out}");
        }
        tracing::info!(keys = keys.len(), "keys of tokens were read");
        *self.state.lock() = State { keys: keys.into(), verified: HashMap::new() };
    }

    /// Whether a password has the form of a token.
    pub(in crate::identity) fn may_be_token(&self, text: &[u8]) -> bool {
        looks_like_token(text)
    }

    pub(in crate::identity) fn verify(&self, token: &[u8], now: Millis) -> Result<VerifiedToken, TokenError> {
        // Also bounds what is hashed.
        let parsed = SignedToken::parse(token)?;
        let hash: [u8; 32] = Sha256::digest(token).into();
        let keys = {
            let state = self.state.lock();
            if let Some(known) = state.verified.get(&hash) {
                return if now < known.ends { Ok(known.clone()) } else { Err(TokenError::Expired) };
            }
            state.keys.clone()
        };
        let verified = self.verify_with(&keys, &parsed, now)?;
        let mut state = self.state.lock();
        if Arc::ptr_eq(&state.keys, &keys) {
            if state.verified.len() >= REMEMBERED {
                state.verified.retain(|_, known| now < known.ends);
            }
            if state.verified.len() >= REMEMBERED {
                state.verified.clear();
            }
            state.verified.insert(hash, verified.clone());
        }
        Ok(verified)
    }

    /// Tokens that are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.state.lock().verified.len()
    }

    pub(super) fn verify_with(
        &self,
        keys: &KeySet,
        token: &SignedToken<'_>,
        now: Millis,
    ) -> Result<VerifiedToken, TokenError> {
        let claims = token.verified(keys, &self.settings.user_claim)?;
        if claims.issuer != self.settings.issuer {
            return Err(TokenError::OtherIssuer);
        }
        if !claims.audience.iter().any(|audience| self.settings.audiences.contains(audience)) {
            return Err(TokenError::OtherAudience);
        }
        let ends = claims.expires.saturating_add(LEEWAY);
        if now >= ends {
            return Err(TokenError::Expired);
        }
        if now.saturating_add(LEEWAY) < claims.not_before {
            return Err(TokenError::NotYetValid);
        }
        Ok(VerifiedToken { user: claims.user.into(), ends })
    }
}
