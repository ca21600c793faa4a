//! AUTH: one user, `default`, and one password (setting `password`).
use super::fault::{Fault, WRONG_PASS};
use crate::config::Settings;
use std::hint::black_box;

/// The only user.
pub(super) const USER_NAME: &str = "default";
/// The same, as clients send it.
pub(super) const USER: &[u8] = USER_NAME.as_bytes();

/// Must a client say a password?
pub(super) fn is_required(settings: &Settings) -> bool {
    settings.password.is_some()
}

/// Checks a user's password; without one set, any will do, as for Redis's `nopass` user.
pub(super) fn check(settings: &Settings, user: &[u8], password: &[u8]) -> Result<(), Fault> {
    let right = match &settings.password {
        None => true,
        Some(expected) => equal(expected.as_bytes(), password),
    };
    match user == USER && right {
        true => Ok(()),
        false => Err(WRONG_PASS),
    }
}

/// Compares in a time that tells nothing but the length of what was given.
pub(super) fn equal(expected: &[u8], given: &[u8]) -> bool {
    let mut differ = u8::from(expected.len() != given.len());
    for (index, byte) in given.iter().enumerate() {
        let other = expected.get(index).copied().unwrap_or(0);
        differ = black_box(differ | (byte ^ other));
    }
    differ == 0
}

#[cfg(test)]
mod tests {
    use super::equal;

    #[test]
    fn equal_is_equality() {
        for (a, b) in [("", ""), ("a", "a"), ("secret", "secret")] {
            assert!(equal(a.as_bytes(), b.as_bytes()));
        }
        for (a, b) in [("", "a"), ("a", ""), ("a", "b"), ("secret", "secre"), ("secret", "secret\0"), ("a\0", "a")] {
            assert!(!equal(a.as_bytes(), b.as_bytes()), "{a:?} {b:?}");
        }
    }
}
