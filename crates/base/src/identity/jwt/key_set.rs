//! The keys that verify tokens: a JWK Set (RFC 7517), as identity providers publish it.
use super::{
    jwt_algorithm::{JwtAlgorithm, PublicKey},
    jwt_json::decode_base64url,
    token_error::TokenError,
};
use serde::{Deserialize, de::IgnoredAny};

/// Lengths of an RSA modulus that are used, in bits. Shorter ones are not secure (RFC 7518 section
/// 3.3), longer ones are slow.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// The public keys of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySet {
    keys: Vec<SetKey>,
    /// Keys that are not used, and why.
    pub(super) left_out: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct SetKey {
    id: Option<String>,
    /// The key is for this algorithm alone.
    only: Option<JwtAlgorithm>,
    key: PublicKey,
}
impl SetKey {
    fn takes(&self, algorithm: JwtAlgorithm) -> bool {
        self.key.has(algorithm) && self.only.is_none_or(|only| only == algorithm)
    }
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Jwk>,
}
/// RFC 7517 section 4; the parameters of RSA, EC and OKP keys are in RFC 7518 section 6 and RFC
/// 8037.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    d: Option<IgnoredAny>,
}

impl KeySet {
    /// Reads a JWK Set. Keys for other purposes, and of kinds that are not used here, are left out.
    ///
    /// # Errors
    /// The text is no JWK Set, a key in it is wrong or private, or no key is left.
    pub(super) fn parse(text: &[u8]) -> Result<KeySet, String> {
        let set: JwkSet = serde_json::from_slice(text).map_err(|error| format!("not a JWK Set: {error}"))?;
        let mut found = KeySet::default();
        for (at, jwk) in set.keys.iter().enumerate() {
            let name = match &jwk.kid {
                Some(kid) => format!("key {} (kid {kid:?})", at + 1),
                None => format!("key {}", at + 1),
            };
            match read_key(jwk).map_err(|why| format!("{name}: {why}"))? {
                Ok(key) if found.is_taken(&key) => {
                    return Err(format!("{name}: another key with this kid verifies the same algorithm"));
                }
                Ok(key) => found.keys.push(key),
                Err(why) => found.left_out.push(format!("{name}: {why}")),
            }
        }
        match found.keys.is_empty() {
            true => {
                let left_out = found.left_out.join("; ");
                Err(format!("no key verifies tokens{}{left_out}", if left_out.is_empty() { "" } else { ": " }))
            }
            false => Ok(found),
        }
    }
    fn is_taken(&self, key: &SetKey) -> bool {
        let same_kind = |other: &SetKey| match (other.only, key.only) {
            (Some(only), _) => key.takes(only),
            (None, Some(only)) => other.takes(only),
            (None, None) => std::mem::discriminant(&other.key) == std::mem::discriminant(&key.key),
        };
        key.id.is_some() && self.keys.iter().any(|other| other.id == key.id && same_kind(other))
    }

    /// The number of keys.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key of a token that names it, or that alone verifies the token's algorithm.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: JwtAlgorithm) -> Result<&PublicKey, TokenError> {
        let fits = |key: &&SetKey| key.takes(algorithm) && kid.is_none_or(|kid| key.id.as_deref() == Some(kid));
        let mut fitting = self.keys.iter().filter(fits);
        match (fitting.next(), fitting.next()) {
            (None, _) => Err(TokenError::UnknownKey),
            (Some(key), None) => Ok(&key.key),
            (Some(_), Some(_)) => Err(TokenError::KeyNotNamed),
        }
    }
}

/// The key; the inner error says why it is left out, the outer one what is wrong with it.
fn read_key(jwk: &Jwk) -> Result<Result<SetKey, String>, String> {
    if jwk.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
        return Ok(Err("is not for signatures (use)".to_owned()));
    }
    if jwk.key_ops.as_ref().is_some_and(|all| all.iter().all(|op| op != "verify")) {
        return Ok(Err("is not to verify (key_ops)".to_owned()));
    }
    let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => {
            let (n, e) = (bytes("n", &jwk.n)?, bytes("e", &jwk.e)?);
            let bits = n.len() * 8 - n.first().map_or(0, |first| first.leading_zeros() as usize);
            if n.first() == Some(&0) || e.first() == Some(&0) {
                return Err("n or e begins with a zero byte (RFC 7518 section 6.3.1)".to_owned());
            }
            if !RSA_BITS.contains(&bits) {
                return Err(format!("an RSA key has {} to {} bits, this one {bits}", RSA_BITS.start(), RSA_BITS.end()));
            }
            if e.len() > 4 || e.last().is_none_or(|last| last % 2 == 0) || *e == [1] {
                return Err("e is not the exponent of an RSA key".to_owned());
            }
            PublicKey::Rsa { n, e }
        }
        ("EC", Some("P-256")) => PublicKey::P256(point(jwk, 32)?),
        ("EC", Some("P-384")) => PublicKey::P384(point(jwk, 48)?),
        ("OKP", Some("Ed25519")) => PublicKey::Ed25519(coordinate("x", &jwk.x, 32)?),
        // A secret that signs as well as it verifies has no place in a file of public keys (kty oct).
        (kind, curve) => {
            return Ok(Err(format!("keys of this kind are not used (kty {kind:?}, crv {:?})", curve.unwrap_or(""))));
        }
    };
    if jwk.d.is_some() {
        return Err("is a private key (d): the file is for public keys".to_owned());
    }
    let only = match &jwk.alg {
        None => None,
        Some(name) => match JwtAlgorithm::of_name(name).filter(|algorithm| key.has(*algorithm)) {
            Some(algorithm) => Some(algorithm),
            None => return Ok(Err(format!("its algorithm is not used (alg {name:?})"))),
        },
    };
    Ok(Ok(SetKey { id: jwk.kid.clone(), only, key }))
}

fn bytes(name: &str, text: &Option<String>) -> Result<Box<[u8]>, String> {
    let bytes = text.as_ref().and_then(decode_base64url).filter(|bytes| !bytes.is_empty());
    bytes.map(Into::into).ok_or_else(|| format!("{name} is missing, or is not base64url"))
}
fn coordinate(name: &str, text: &Option<String>, len: usize) -> Result<Box<[u8]>, String> {
    let bytes = bytes(name, text)?;
    match bytes.len() == len {
        true => Ok(bytes),
        false => Err(format!("{name} has {} bytes instead of {len}", bytes.len())),
    }
}
fn point(jwk: &Jwk, len: usize) -> Result<Box<[u8]>, String> {
    let (x, y) = (coordinate("x", &jwk.x, len)?, coordinate("y", &jwk.y, len)?);
    Ok([&[4], &*x, &*y].concat().into())
}
