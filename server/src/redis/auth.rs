//! AUTH: one user, `default`, and one password (setting `password`).
use super::command_error::{CommandError, WRONG_PASS};
use crate::config::Settings;
use subtle::ConstantTimeEq as _;

/// The only user.
pub(super) const USER_NAME: &str = "default";
/// The same name, as clients send it.
pub(super) const USER: &[u8] = USER_NAME.as_bytes();

/// Whether clients must authenticate.
pub(super) fn is_required(settings: &Settings) -> bool {
    settings.password.is_some()
}

/// Checks a user and a password. If no password is set, any password is right, like for Redis's `nopass` user.
pub(super) fn check(settings: &Settings, user: &[u8], password: &[u8]) -> Result<(), CommandError> {
    let right = match &settings.password {
        None => true,
        // The time of the comparison reveals only the length.
        Some(expected) => expected.as_bytes().ct_eq(password).into(),
    };
    match user == USER && right {
        true => Ok(()),
        false => Err(WRONG_PASS),
    }
}
