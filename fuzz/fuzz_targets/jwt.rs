//! Tokens and key files: any bytes are an answer, nothing that was not signed is verified, and no name counts that is there twice.
//!
//! The parser is in files of the server; these alone are built with it.
#![no_main]
#![allow(dead_code, reason = "the server uses the rest")]
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use key_set::KeySet;
use libfuzzer_sys::fuzz_target;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use signed_token::{Claims, SignedToken, looks_like_token};
use token_error::TokenError;

#[path = "../../crates/base/src/identity/jwt/jwt_algorithm.rs"]
mod jwt_algorithm;
#[path = "../../crates/base/src/identity/jwt/jwt_json.rs"]
mod jwt_json;
#[path = "../../crates/base/src/identity/jwt/key_set.rs"]
mod key_set;
#[path = "../../crates/base/src/identity/jwt/signed_token.rs"]
mod signed_token;
#[path = "../../crates/base/src/identity/jwt/token_error.rs"]
mod token_error;

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fuzz_target!(|input: (Vec<u8>, Vec<u8>, Vec<u8>, u16, u8)| {
    let (token, header, claims, at, to) = input;
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a key");
    let jwk = format!("{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\",\"x\":\"{}\"}}", encode(pair.public_key()));
    let keys = KeySet::parse(format!("{{\"keys\":[{jwk}]}}").as_bytes()).expect("keys");
    if let Ok(parsed) = SignedToken::parse(&token) {
        assert!(parsed.verified(&keys, "sub").is_err() || looks_like_token(&token));
    }
    // A file of keys.
    let _ = KeySet::parse(&token);
    // A header that the input chooses, and claims, rightly signed: what is verified has the claims of the text.
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let right = format!("{signed}.{}", encode(pair.sign(signed.as_bytes())));
    if let Ok(parsed) = SignedToken::parse(right.as_bytes()) {
        let verified = parsed.verified(&keys, "sub");
        if verified != Err(TokenError::UnknownKey) {
            assert_eq!(verified, Claims::parse(&claims, "sub"));
        }
        // `{"alg":…}` in base64url begins so, unless space stands before it.
        assert!(looks_like_token(right.as_bytes()) || header[0] != b'{');
    }
    // One byte of a good token is changed.
    let header = "{\"alg\":\"EdDSA\",\"kid\":\"k\"}";
    let signed = format!("{}.{}", encode(header), encode(&claims));
    let good = format!("{signed}.{}", encode(pair.sign(signed.as_bytes())));
    let mut changed = good.into_bytes();
    let place = usize::from(at) % changed.len();
    let was = std::mem::replace(&mut changed[place], to);
    if let Ok(parsed) = SignedToken::parse(&changed) {
        let verified = parsed.verified(&keys, "sub");
        match was == to {
            true => assert_eq!(verified, Claims::parse(&claims, "sub")),
            false => assert!(verified.is_err()),
        }
    }
    if let Ok(read) = Claims::parse(&claims, "sub") {
        let tree: serde_json::Value = serde_json::from_slice(&claims).expect("JSON, unless it nests deeply");
        assert_eq!(tree["sub"], read.user.as_str());
        assert_eq!(tree["iss"], read.issuer.as_str());
    }
});
