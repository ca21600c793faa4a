//! Passwords: kept as hashes, SHA-256 as Redis does or argon2, and compared in constant time.
use super::rule_error::RuleError;
use argon2::{Argon2, Params, PasswordVerifier as _, password_hash::phc::PasswordHash};
use indexmap::IndexSet;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use subtle::ConstantTimeEq as _;
use tokio_rustls::rustls::crypto::{GetRandomFailed, ring};

/// Most memory that the verification of one password may take, in KiB, and most passes: a file
/// could ask for more than the machine has.
const MAX_ARGON2_KIB: u32 = 256 * 1024;
const MAX_ARGON2_PASSES: u32 = 10;

/// A password of a user, which cannot be read back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum StoredPassword {
    Sha256([u8; 32]),
    /// In the PHC string format: `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`.
    Argon2(Box<str>),
}

impl StoredPassword {
    /// Of a password in clear.
    pub(super) fn of(password: &[u8]) -> StoredPassword {
        StoredPassword::Sha256(Sha256::digest(password).into())
    }
    /// What a rule has behind `#`.
    pub(super) fn parse(text: &[u8]) -> Result<StoredPassword, RuleError> {
        if let Some(text) = text.strip_prefix(b"$argon2").and_then(|_| std::str::from_utf8(text).ok()) {
            let hash = PasswordHash::new(text).map_err(|_| RuleError::UnusableArgon2)?;
            let params = Params::try_from(&hash).map_err(|_| RuleError::UnusableArgon2)?;
            let is_bearable = params.m_cost() <= MAX_ARGON2_KIB && params.t_cost() <= MAX_ARGON2_PASSES;
            return match is_bearable && hash.hash.is_some() {
                true => Ok(StoredPassword::Argon2(text.into())),
                false => Err(RuleError::UnusableArgon2),
            };
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(RuleError::MalformedHash),
        };
        let (pairs, []) = text.as_chunks::<2>() else { return Err(RuleError::MalformedHash) };
        let bytes: Result<Vec<u8>, _> = pairs.iter().map(|[high, low]| Ok(digit(*high)? << 4 | digit(*low)?)).collect();
        bytes?.try_into().map(StoredPassword::Sha256).map_err(|_| RuleError::MalformedHash)
    }
    /// As behind `#`.
    pub(super) fn text(&self) -> String {
        match self {
            StoredPassword::Argon2(text) => text.to_string(),
            StoredPassword::Sha256(digest) => digest.iter().fold(String::new(), |mut text, byte| {
                // Writing to a string cannot fail.
                let _ = write!(text, "{byte:02x}");
                text
            }),
        }
    }
}

/// Fills the bytes with random numbers that cannot be guessed.
///
/// # Errors
/// The system has none.
pub fn fill_random(bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
    ring::default_provider().secure_random.fill(bytes)
}

/// The passwords of a user, to be compared with one that a client sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passwords(pub(super) IndexSet<StoredPassword>);
impl Passwords {
    /// Whether comparing takes long (argon2), so that it must not hold up others.
    pub fn are_slow(&self) -> bool {
        self.0.iter().any(|one| matches!(one, StoredPassword::Argon2(_)))
    }
    /// Takes as long as a comparison with one password.
    pub(super) fn contain_one(&self, password: &[u8]) -> bool {
        let digest: [u8; 32] = Sha256::digest(password).into();
        digest.ct_eq(&[0; 32]).into()
    }
    /// Whether this is one of those that are kept as SHA-256.
    pub(super) fn contain_token(&self, token: &[u8]) -> bool {
        let digest: [u8; 32] = Sha256::digest(token).into();
        self.0.iter().fold(false, |found, one| {
            found | matches!(one, StoredPassword::Sha256(expected) if bool::from(expected.ct_eq(&digest)))
        })
    }
    /// Whether this is one of them. The time says nothing about which, or how much of it is right.
    pub fn contain(&self, password: &[u8]) -> bool {
        let digest: [u8; 32] = Sha256::digest(password).into();
        self.0.iter().fold(false, |found, one| {
            found
                | match one {
                    StoredPassword::Sha256(expected) => bool::from(expected.ct_eq(&digest)),
                    StoredPassword::Argon2(text) => PasswordHash::new(text)
                        .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
                }
        })
    }
}
