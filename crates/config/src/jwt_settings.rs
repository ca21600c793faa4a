//! JSON Web Tokens as logins: whose tokens count, and whom they name.
use std::path::PathBuf;

/// Whose tokens are logins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// The file of public keys, a JWK Set.
    pub jwks: PathBuf,
    /// What the claim `iss` must be.
    pub issuer: String,
    /// Of which the claim `aud` must have one.
    pub audiences: Vec<String>,
    /// The claim that names the user.
    pub user_claim: String,
}
