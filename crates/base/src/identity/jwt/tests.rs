//! Tokens that are right, and the ways in which they are forged. Tokens of a library in wide use
//! are in `crates/larder/tests/front_door/tokens.rs`.
use super::{
    key_set::KeySet,
    signed_token::SignedToken,
    token_error::TokenError::{self, *},
    token_verifier::TokenVerifier,
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use larder_config::JwtSettings;
use proptest::prelude::*;
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

const NOW: u64 = 1_800_000_000_000;
const SECONDS: u64 = NOW / 1000;

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// An issuer with a key of P-256 (`kid` is `p`) and one of Ed25519 (`e`).
struct Issuer {
    random: SystemRandom,
    p256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}
impl Issuer {
    fn new() -> Issuer {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let p256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).expect("a key");
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
        Issuer { random, p256, ed25519: Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("a key") }
    }
    fn jwks(&self) -> Value {
        let point = self.p256.public_key().as_ref();
        json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "p", "x": encode(&point[1..33]), "y": encode(&point[33..])},
            {"kty": "OKP", "crv": "Ed25519", "kid": "e", "x": encode(self.ed25519.public_key())},
        ]})
    }
    fn keys(&self) -> KeySet {
        KeySet::parse(self.jwks().to_string().as_bytes()).expect("keys")
    }
    /// A token with this header and these claims, signed with P-256.
    fn sign(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.p256.sign(&self.random, signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", encode(signature))
    }
    fn token(&self, claims: &Value) -> String {
        self.sign("{\"alg\":\"ES256\",\"kid\":\"p\",\"typ\":\"JWT\"}", &claims.to_string())
    }
}

fn verifier() -> TokenVerifier {
    TokenVerifier::new(JwtSettings {
        jwks: "none".into(),
        issuer: "https://issuer".to_owned(),
        audiences: vec!["larder".to_owned(), "cache".to_owned()],
        user_claim: "sub".to_owned(),
    })
}

fn claims() -> Value {
    json!({"iss": "https://issuer", "aud": "larder", "sub": "shop", "exp": SECONDS + 60})
}
fn with(name: &str, value: Value) -> Value {
    let mut all = claims();
    all[name] = value;
    all
}
fn without(name: &str) -> Value {
    let mut all = claims();
    all.as_object_mut().expect("an object").remove(name);
    all
}

/// The user, or why the token is refused.
fn check(issuer: &Issuer, token: &str) -> Result<String, TokenError> {
    let parsed = SignedToken::parse(token.as_bytes())?;
    verifier().verify_with(&issuer.keys(), &parsed, NOW).map(|verified| verified.user.to_string())
}

#[test]
fn a_token_names_its_user() {
    let issuer = Issuer::new();
    let shop = Ok("shop".to_owned());
    assert_eq!(check(&issuer, &issuer.token(&claims())), shop);
    // The one key that verifies ES256.
    assert_eq!(check(&issuer, &issuer.sign("{\"alg\":\"ES256\"}", &claims().to_string())), shop);
    let signed = format!("{}.{}", encode("{\"alg\":\"EdDSA\",\"kid\":\"e\"}"), encode(claims().to_string()));
    let token = format!("{signed}.{}", encode(issuer.ed25519.sign(signed.as_bytes())));
    assert_eq!(check(&issuer, &token), shop);
    for (name, value) in [
        ("aud", json!(["other", "cache"])),
        ("exp", json!(SECONDS - 29)),
        ("exp", json!(SECONDS as f64 + 0.5)),
        ("exp", json!(1e300)),
        ("nbf", json!(SECONDS + 29)),
        ("deep", serde_json::from_str(&format!("{}{}", "[".repeat(100), "]".repeat(100))).expect("JSON")),
    ] {
        assert_eq!(check(&issuer, &issuer.token(&with(name, value.clone()))), shop, "{name}: {value}");
    }
    for kind in ["jwt", "at+jwt", "application/at+JWT"] {
        let header = json!({"alg": "ES256", "typ": kind, "jku": "http://evil", "x5u": "http://evil"}).to_string();
        assert_eq!(check(&issuer, &issuer.sign(&header, &claims().to_string())), shop, "{kind}");
    }
}

#[test]
fn claims_that_do_not_fit_are_refused() {
    let issuer = Issuer::new();
    for (claims, why) in [
        (without("exp"), MalformedClaims),
        (without("iss"), MalformedClaims),
        (without("sub"), MalformedClaims),
        (without("aud"), OtherAudience),
        (with("exp", json!(SECONDS - 30)), Expired),
        (with("exp", json!(-1)), Expired),
        (with("exp", json!(-1e300)), Expired),
        (with("exp", json!(-0.0)), Expired),
        (with("nbf", json!(1e300)), NotYetValid),
        (with("nbf", json!(u64::MAX)), NotYetValid),
        (with("exp", json!({"a": 1})), MalformedClaims),
        (with("aud", json!(vec!["other"; 1000])), OtherAudience),
        (with("exp", json!((SECONDS + 60).to_string())), MalformedClaims),
        (with("exp", json!(null)), MalformedClaims),
        (with("nbf", json!(SECONDS + 31)), NotYetValid),
        (with("nbf", json!(true)), MalformedClaims),
        (with("iss", json!("https://issuer/")), OtherIssuer),
        (with("iss", json!(["https://issuer"])), MalformedClaims),
        (with("aud", json!("Larder")), OtherAudience),
        (with("aud", json!([])), OtherAudience),
        (with("aud", json!([["larder"]])), MalformedClaims),
        (with("aud", json!({"larder": 1})), MalformedClaims),
        (with("sub", json!("")), MalformedClaims),
        (with("sub", json!(7)), MalformedClaims),
        (with("sub", json!("u".repeat(1025))), MalformedClaims),
        (json!([]), MalformedClaims),
        (json!("shop"), MalformedClaims),
    ] {
        assert_eq!(check(&issuer, &issuer.token(&claims)), Err(why), "{claims}");
    }
    let twice = claims().to_string().replace("{", "{\"sub\":\"admin\",");
    assert_eq!(check(&issuer, &issuer.sign("{\"alg\":\"ES256\"}", &twice)), Err(MalformedClaims));
    let escaped = claims().to_string().replace("{", "{\"s\\u0075b\":\"admin\",");
    assert_eq!(check(&issuer, &issuer.sign("{\"alg\":\"ES256\"}", &escaped)), Err(MalformedClaims));
}

#[test]
fn forged_tokens_are_refused() {
    let issuer = Issuer::new();
    let good = issuer.token(&claims());
    let parts: Vec<&str> = good.split('.').collect();
    let [header, body, signature] = [parts[0], parts[1], parts[2]];
    let admin = encode(with("sub", json!("admin")).to_string());
    let hs256 = |key: &[u8], alg: &str| {
        let signed = format!("{}.{body}", encode(format!("{{\"alg\":\"{alg}\",\"kid\":\"p\"}}")));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), signed.as_bytes());
        format!("{signed}.{}", encode(tag))
    };
    let head = |text: &str| format!("{}.{body}.{signature}", encode(text));
    let public = issuer.p256.public_key().as_ref();
    for (token, why) in [
        // The algorithm is the attacker's choice.
        (format!("{}.{body}.", encode("{\"alg\":\"none\"}")), UnknownAlgorithm),
        (format!("{}.{body}.", encode("{\"alg\":\"None\",\"kid\":\"p\"}")), UnknownAlgorithm),
        (hs256(public, "HS256"), UnknownAlgorithm),
        (hs256(public, "ES256"), WrongSignature),
        (hs256(issuer.jwks().to_string().as_bytes(), "HS256"), UnknownAlgorithm),
        (head("{\"alg\":\"RS256\",\"kid\":\"p\"}"), UnknownKey),
        (head("{\"alg\":\"ES384\",\"kid\":\"p\"}"), UnknownKey),
        (head("{\"alg\":\"EdDSA\",\"kid\":\"p\"}"), UnknownKey),
        (head("{\"kid\":\"p\"}"), Malformed),
        (head("{\"alg\":[\"ES256\"]}"), Malformed),
        (head("{\"alg\":\"ES256\",\"alg\":\"ES256\"}"), Malformed),
        // The key is.
        (issuer.sign("{\"alg\":\"ES256\",\"kid\":\"../../dev/null\"}", "{}"), UnknownKey),
        (issuer.sign("{\"alg\":\"ES256\",\"kid\":\"\"}", "{}"), UnknownKey),
        (issuer.sign("{\"alg\":\"ES256\",\"kid\":\"e\"}", "{}"), UnknownKey),
        (issuer.sign("{\"alg\":\"ES256\",\"kid\":{\"p\":1}}", "{}"), Malformed),
        (Issuer::new().token(&claims()), WrongSignature),
        // The content is.
        (format!("{header}.{admin}.{signature}"), WrongSignature),
        (format!("{header}.{body}."), WrongSignature),
        (format!("{header}.{body}.{}", encode([0; 64])), WrongSignature),
        (issuer.sign("{\"alg\":\"ES256\",\"crit\":[\"b64\"],\"b64\":false}", &claims().to_string()), OtherKind),
        (issuer.sign("{\"alg\":\"ES256\",\"crit\":[]}", &claims().to_string()), OtherKind),
        (issuer.sign("{\"alg\":\"ES256\",\"typ\":\"logout+jwt\"}", &claims().to_string()), OtherKind),
        (issuer.sign("{\"alg\":\"ES256\"}", "not JSON"), MalformedClaims),
        (
            issuer.sign("{\"alg\":\"ES256\"}", &claims().to_string().replace(&(SECONDS + 60).to_string(), "1e400")),
            MalformedClaims,
        ),
        (issuer.sign("{\"alg\":\"ES256\"}", &format!("\u{feff}{}", claims())), MalformedClaims),
        (issuer.sign("{\"alg\":\"ES256\"}", &format!("{}{}", claims(), claims())), MalformedClaims),
        (issuer.sign("{\"alg\":\"ES256\"}", &"[".repeat(9000)), MalformedClaims),
        (issuer.sign("{\"alg\":\"ES256\",\"kid\":\"p\",\"kid\":\"p\"}", "{}"), Malformed),
        (issuer.sign("{\"alg\":\"ES256\",\"kid\":\"p\\u0000\"}", "{}"), UnknownKey),
        (issuer.sign(&json!({"alg": "ES256", "kid": "p".repeat(8000)}).to_string(), "{}"), UnknownKey),
        (issuer.sign("{\"alg\":\"ES256\",\"kid\":null}", &without("exp").to_string()), Malformed),
        (issuer.sign("{\"alg\":\"es256\"}", "{}"), UnknownAlgorithm),
        (issuer.sign("{\"alg\":\" ES256\"}", "{}"), UnknownAlgorithm),
        (issuer.sign(&format!("{{\"alg\":\"ES256\",\"x\":{}", "[".repeat(9000)), "{}"), Malformed),
        // The form is.
        (format!("{good}."), Malformed),
        (format!("{good}="), Malformed),
        (format!("{header}.{signature}"), Malformed),
        (format!(" {good}"), Malformed),
        ("..".to_owned(), Malformed),
        (String::new(), Malformed),
        (format!("{header}.{}.{signature}", "A".repeat(20_000)), TooLong),
    ] {
        assert_eq!(check(&issuer, &token), Err(why), "{token}");
    }
    // No other text is the same token: a last character with other bits that no byte takes.
    let last = signature.bytes().last().expect("a character");
    let others = (b'A'..=b'Z').filter(|other| *other != last);
    for other in others {
        let token = format!("{}{}", &good[..good.len() - 1], char::from(other));
        assert!(matches!(check(&issuer, &token), Err(Malformed | WrongSignature)), "{token}");
    }
}

#[test]
fn a_key_file_has_public_keys_for_signatures() {
    let issuer = Issuer::new();
    let all = issuer.jwks();
    let parse = |keys: &[Value]| KeySet::parse(json!({ "keys": keys }).to_string().as_bytes());
    let changed = |at: usize, name: &str, value: Value| {
        let mut key = all["keys"][at].clone();
        key[name] = value;
        key
    };
    let rsa = |bytes: &[u8], e: &[u8]| json!({"kty": "RSA", "kid": "r", "n": encode(bytes), "e": encode(e)});
    let mut modulus = [0xff; 256];
    assert_eq!(parse(&[rsa(&modulus, &[1, 0, 1])]).map(|keys| keys.len()), Ok(1));
    modulus[0] = 0x7f;
    for (keys, problem) in [
        (vec![], "no key verifies tokens"),
        (vec![json!({"kty": "oct", "k": "c2VjcmV0", "kid": "o"})], "kty \"oct\""),
        (vec![changed(0, "use", json!("enc"))], "not for signatures"),
        (vec![changed(0, "key_ops", json!(["sign"]))], "not to verify"),
        (vec![changed(0, "alg", json!("HS256"))], "algorithm is not used"),
        (vec![changed(0, "alg", json!("RS256"))], "algorithm is not used"),
        (vec![changed(0, "crv", json!("secp256k1"))], "are not used"),
        (vec![changed(0, "x", json!("AAAA"))], "x has 3 bytes instead of 32"),
        (vec![changed(0, "x", json!("=+/"))], "not base64url"),
        (vec![changed(1, "d", json!("AAAA"))], "private key"),
        (vec![all["keys"][0].clone(), changed(0, "x", all["keys"][1]["x"].clone())], "another key with this kid"),
        (vec![rsa(&modulus, &[1, 0, 1])], "this one 2047"),
        (vec![rsa(&[0xff; 1025], &[1, 0, 1])], "this one 8200"),
        (vec![rsa(&[0xff; 256], &[2])], "exponent"),
        (vec![rsa(&[0xff; 256], &[1])], "exponent"),
        (vec![rsa(&[0xff; 256], &[0, 3])], "zero byte"),
    ] {
        let said = parse(&keys).expect_err("a problem");
        assert!(said.contains(problem), "{said}");
    }
    for text in ["", "{}", "[]", "{\"keys\":{}}", "{\"keys\":[{}]}"] {
        assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
    }
    // What other programs have in their file is left out.
    let some = parse(&[json!({"kty": "oct", "k": "c2VjcmV0"}), all["keys"][0].clone()]).expect("keys");
    assert_eq!((some.len(), some.left_out.len()), (1, 1));
    // Two keys for one algorithm: a token has to say which.
    let two = json!({"keys": [all["keys"][0], changed(0, "kid", json!("q"))]}).to_string();
    let keys = KeySet::parse(two.as_bytes()).expect("keys");
    let token = issuer.sign("{\"alg\":\"ES256\"}", &claims().to_string());
    let parsed = SignedToken::parse(token.as_bytes()).expect("a token");
    assert_eq!(verifier().verify_with(&keys, &parsed, NOW), Err(KeyNotNamed));
}

/// RFC 8037 appendix A.4. What is signed there are no claims.
#[test]
fn the_signature_of_the_rfc_is_right() {
    const KEY: &str =
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";
    const TOKEN: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let keys = KeySet::parse(KEY.as_bytes()).expect("keys");
    let verified = |token: &str| SignedToken::parse(token.as_bytes()).expect("a token").verified(&keys, "sub");
    assert_eq!(verified(TOKEN), Err(MalformedClaims));
    assert_eq!(verified(&TOKEN.replace("RXhhb", "RXhhc")), Err(WrongSignature));
}

#[test]
fn a_token_is_verified_once_and_ends() {
    let issuer = Issuer::new();
    let verifier = verifier();
    verifier.replace_keys(issuer.keys());
    let token = issuer.token(&claims());
    let end = NOW + 60_000 + 30_000;
    for now in [NOW, end - 1] {
        let verified = verifier.verify(token.as_bytes(), now).expect("a user");
        assert_eq!((&*verified.user, verified.ends), ("shop", end));
        assert_eq!(verifier.remembered(), 1);
    }
    assert_eq!(verifier.verify(token.as_bytes(), end), Err(Expired));
    // Of other keys nothing is remembered.
    verifier.replace_keys(Issuer::new().keys());
    assert_eq!(verifier.verify(token.as_bytes(), NOW), Err(WrongSignature));
    assert_eq!(verifier.remembered(), 0);
    // The number of tokens is bounded.
    verifier.replace_keys(issuer.keys());
    for number in 0..5000 {
        let token = issuer.token(&with("jti", json!(number)));
        verifier.verify(token.as_bytes(), NOW).expect("a user");
        assert!((1..=4096).contains(&verifier.remembered()));
    }
}

proptest! {
    #[test]
    fn no_change_of_a_token_is_another_token(at in 0usize..400, to in any::<u8>()) {
        let issuer = Issuer::new();
        let good = issuer.token(&claims());
        let mut bytes = good.clone().into_bytes();
        let at = at % bytes.len();
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        let result = SignedToken::parse(&bytes).and_then(|token| token.verified(&issuer.keys(), "sub"));
        prop_assert!(result.is_err());
    }
    #[test]
    fn any_bytes_are_an_answer(bytes in any::<Vec<u8>>()) {
        let _ = KeySet::parse(&bytes);
        prop_assert!(SignedToken::parse(&bytes).is_err());
        let _ = super::signed_token::Claims::parse(&bytes, "sub");
    }
}
