//! Why a token is refused.
use std::fmt;

/// What is wrong with a token. No text of the token is part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenError {
    TooLong,
    Malformed,
    UnknownAlgorithm,
    /// The token has extensions that must be understood (`crit`), or is of another type (`typ`).
    OtherKind,
    UnknownKey,
    /// The token names no key, and several keys verify its algorithm.
    KeyNotNamed,
    WrongSignature,
    MalformedClaims,
    OtherIssuer,
    OtherAudience,
    NotYetValid,
    Expired,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenError::TooLong => "the token is longer than 16 KiB",
            TokenError::Malformed => "the token is malformed",
            TokenError::UnknownAlgorithm => "the algorithm (alg) is not one of those that are verified",
            TokenError::OtherKind => "the token has extensions (crit), or is no access token (typ)",
            TokenError::UnknownKey => "no key of jwt-jwks has this kid and verifies this algorithm",
            TokenError::KeyNotNamed => {
                "the token names no key (kid), and several keys of jwt-jwks verify its algorithm"
            }
            TokenError::WrongSignature => "the signature is wrong",
            TokenError::MalformedClaims => "a claim is missing, there twice, or malformed",
            TokenError::OtherIssuer => "the issuer (iss) is not jwt-issuer",
            TokenError::OtherAudience => "the audience (aud) has none of jwt-audience",
            TokenError::NotYetValid => "the token is not valid yet (nbf)",
            TokenError::Expired => "the token has expired (exp)",
        })
    }
}
