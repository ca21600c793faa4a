//! The settings of JSON Web Tokens, read and checked.
use super::{effective_values::EffectiveSettings, jwt_settings::JwtSettings, settings_table::Fallback};

/// `None`: tokens are no logins.
pub(super) fn jwt(scope: &EffectiveSettings) -> Option<JwtSettings> {
    Some(JwtSettings {
        jwks: scope.text("jwt-jwks")?.into(),
        issuer: scope.text("jwt-issuer").unwrap_or_default().to_owned(),
        audiences: scope.texts("jwt-audience").into_iter().map(str::to_owned).collect(),
        user_claim: scope.text("jwt-user-claim").unwrap_or_default().to_owned(),
    })
}

/// Tokens of any issuer, or for any service, must not be logins here.
pub(super) fn check_jwt(top: &EffectiveSettings, problems: &mut Vec<String>) {
    let is_set = |name: &str| !top.effective(name).values.is_empty();
    let mut problem = |name: &str, what: &str| problems.push(format!("{}: {name}: {what}", top.effective(name).origin));
    if !is_set("jwt-jwks") {
        for name in ["jwt-issuer", "jwt-audience", "jwt-user-claim"] {
            let effective = top.effective(name);
            let is_default = matches!(effective.setting.default, Fallback::Is(text) if top.text(name) == Some(text));
            if is_set(name) && !is_default {
                problem(name, "has no meaning without jwt-jwks");
            }
        }
        return;
    }
    for (name, why) in [
        ("jwt-issuer", "the keys may be those of several issuers"),
        ("jwt-audience", "the issuer's tokens for other services would count here"),
        ("users-file", "a token names a user of that file"),
    ] {
        if !is_set(name) {
            problem("jwt-jwks", &format!("{name} must be set: {why}"));
        }
    }
}
