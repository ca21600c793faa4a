//! JSON Web Tokens (RFC 7519) as logins: compact signed tokens (RFC 7515), verified with the public
//! keys of a local file (RFC 7517).
//!
//! ```text
//! token ─► SignedToken: three parts, header, signature ─► KeySet: the key and the algorithm ─► Claims: issuer, audience, time, user
//! ```
//!
//! Invariants (RFC 8725):
//! - Only public keys are kept, and only algorithms with public keys exist here: neither `none` nor
//!   HMAC has a name.
//! - A key decides which algorithms it verifies. The token's `alg` only chooses among these.
//! - Keys come from the file alone. `jku`, `jwk`, `x5u` and `x5c` of a token are not looked at, and
//!   `kid` is only compared.
//! - A length is compared with its limit before anything is decoded. JSON is read without
//!   recursion.
//! - Nothing of a token is believed before its signature is verified.
mod jwt_algorithm;
mod jwt_json;
mod key_set;
mod signed_token;
#[cfg(test)]
mod tests;
mod token_error;
mod token_verifier;

pub(super) use token_verifier::{TokenVerifier, VerifiedToken};
