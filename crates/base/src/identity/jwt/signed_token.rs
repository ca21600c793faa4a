//! A token in its compact form (RFC 7515 section 7.1): header, claims and signature in base64url,
//! with dots between them.
use super::{
    jwt_algorithm::JwtAlgorithm,
    jwt_json::{JsonMembers, decode_base64url},
    key_set::KeySet,
    token_error::TokenError,
};
use larder_engine::Millis;

/// Longest token, in bytes. Those of identity providers with many groups have up to 10,000.
const LONGEST: usize = 16 * 1024;
/// Longest name of a user.
const LONGEST_USER: usize = 1024;

/// A token that was taken apart, and not verified.
pub(super) struct SignedToken<'t> {
    algorithm: JwtAlgorithm,
    kid: Option<String>,
    /// What the signature is of.
    signed: &'t [u8],
    claims: &'t [u8],
    signature: Vec<u8>,
}

/// Whether a text has the form of a token, so that it may be worth parsing: three parts, of which
/// the first is an object in base64url.
pub(super) fn looks_like_token(text: &[u8]) -> bool {
    text.starts_with(b"ey") && text.iter().filter(|byte| **byte == b'.').count() == 2
}

impl<'t> SignedToken<'t> {
    pub(super) fn parse(token: &'t [u8]) -> Result<SignedToken<'t>, TokenError> {
        if token.len() > LONGEST {
            return Err(TokenError::TooLong);
        }
        let mut dots = token.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
        let (Some(first), Some(second), None) = (dots.next(), dots.next(), dots.next()) else {
            return Err(TokenError::Malformed);
        };
        let decoded = |part: &[u8]| decode_base64url(part).ok_or(TokenError::Malformed);
        let (header, signature) = (decoded(&token[..first])?, decoded(&token[second + 1..])?);
        let header = JsonMembers::parse(&header).ok_or(TokenError::Malformed)?;
        let text = |name| header.get::<String>(name).map_err(|_| TokenError::Malformed);
        let algorithm = text("alg")?.ok_or(TokenError::Malformed)?;
        let algorithm = JwtAlgorithm::of_name(&algorithm).ok_or(TokenError::UnknownAlgorithm)?;
        let kind = text("typ")?.unwrap_or_default().to_ascii_lowercase();
        // RFC 8725 section 3.11: tokens for logouts, events and proofs are signed with the same keys.
        let is_login = matches!(kind.strip_prefix("application/").unwrap_or(&kind), "" | "jwt" | "at+jwt");
        if header.has("crit") || !is_login {
            return Err(TokenError::OtherKind);
        }
        let (signed, claims) = (&token[..second], &token[first + 1..second]);
        Ok(SignedToken { algorithm, kid: text("kid")?, signed, claims, signature })
    }

    /// What the token claims, once its signature is verified.
    pub(super) fn verified(&self, keys: &KeySet, user_claim: &str) -> Result<Claims, TokenError> {
        let key = keys.find(self.kid.as_deref(), self.algorithm)?;
        match key.verifies(self.algorithm, self.signed, &self.signature) {
            true => Claims::parse(&decode_base64url(self.claims).ok_or(TokenError::Malformed)?, user_claim),
            false => Err(TokenError::WrongSignature),
        }
    }
}

/// The claims that count (RFC 7519 section 4.1).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) issuer: String,
    pub(super) audience: Vec<String>,
    pub(super) not_before: Millis,
    pub(super) expires: Millis,
    pub(super) user: String,
}

impl Claims {
    pub(super) fn parse(text: &[u8], user_claim: &str) -> Result<Claims, TokenError> {
        let wrong = |_| TokenError::MalformedClaims;
        let all = JsonMembers::parse(text).ok_or(TokenError::MalformedClaims)?;
        let text = |name| all.get::<String>(name).map_err(wrong)?.ok_or(TokenError::MalformedClaims);
        let time = |name| all.get::<f64>(name).map(|seconds| seconds.map(millis)).map_err(wrong);
        let audience = match all.get::<String>("aud") {
            Ok(one) => one.into_iter().collect(),
            Err(_) => all.get::<Vec<String>>("aud").map_err(wrong)?.unwrap_or_default(),
        };
        let user = text(user_claim)?;
        if user.is_empty() || user.len() > LONGEST_USER {
            return Err(TokenError::MalformedClaims);
        }
        Ok(Claims {
            issuer: text("iss")?,
            audience,
            not_before: time("nbf")?.unwrap_or(0),
            expires: time("exp")?.ok_or(TokenError::MalformedClaims)?,
            user,
        })
    }
}

/// Seconds may have a fraction. A time before 1970 is 1970, one that is too far is the end of all
/// times.
fn millis(seconds: f64) -> Millis {
    (seconds * 1000.0) as Millis
}
