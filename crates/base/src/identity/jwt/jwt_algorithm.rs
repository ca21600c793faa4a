//! Signature algorithms (RFC 7518 section 3, RFC 8037, RFC 9864) and the public keys that verify
//! them.
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};

/// An algorithm of the header field `alg`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JwtAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    /// Ed25519 alone: Ed448 has no implementation here.
    EdDsa,
}

impl JwtAlgorithm {
    pub(super) fn of_name(name: &str) -> Option<JwtAlgorithm> {
        Some(match name {
            "RS256" => JwtAlgorithm::Rs256,
            "RS384" => JwtAlgorithm::Rs384,
            "RS512" => JwtAlgorithm::Rs512,
            "PS256" => JwtAlgorithm::Ps256,
            "PS384" => JwtAlgorithm::Ps384,
            "PS512" => JwtAlgorithm::Ps512,
            "ES256" => JwtAlgorithm::Es256,
            "ES384" => JwtAlgorithm::Es384,
            "EdDSA" | "Ed25519" => JwtAlgorithm::EdDsa,
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PublicKey {
    /// Modulus and exponent, big-endian, without leading zeros.
    Rsa {
        n: Box<[u8]>,
        e: Box<[u8]>,
    },
    /// The uncompressed point: 4, x, y.
    P256(Box<[u8]>),
    /// The uncompressed point: 4, x, y.
    P384(Box<[u8]>),
    Ed25519(Box<[u8]>),
}

/// What ring verifies with.
enum Verifier {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

impl PublicKey {
    /// `None`: keys of this kind do not have this algorithm.
    fn verifier(&self, algorithm: JwtAlgorithm) -> Option<Verifier> {
        Some(match (self, algorithm) {
            (PublicKey::Rsa { .. }, JwtAlgorithm::Rs256) => Verifier::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            (PublicKey::Rsa { .. }, JwtAlgorithm::Rs384) => Verifier::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            (PublicKey::Rsa { .. }, JwtAlgorithm::Rs512) => Verifier::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            (PublicKey::Rsa { .. }, JwtAlgorithm::Ps256) => Verifier::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            (PublicKey::Rsa { .. }, JwtAlgorithm::Ps384) => Verifier::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            (PublicKey::Rsa { .. }, JwtAlgorithm::Ps512) => Verifier::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            (PublicKey::P256(_), JwtAlgorithm::Es256) => Verifier::Other(&signature::ECDSA_P256_SHA256_FIXED),
            (PublicKey::P384(_), JwtAlgorithm::Es384) => Verifier::Other(&signature::ECDSA_P384_SHA384_FIXED),
            (PublicKey::Ed25519(_), JwtAlgorithm::EdDsa) => Verifier::Other(&signature::ED25519),
            _ => return None,
        })
    }
    /// Whether keys of this kind have this algorithm.
    pub(super) fn has(&self, algorithm: JwtAlgorithm) -> bool {
        self.verifier(algorithm).is_some()
    }
    pub(super) fn verifies(&self, algorithm: JwtAlgorithm, signed: &[u8], signature: &[u8]) -> bool {
        let Some(verifier) = self.verifier(algorithm) else { return false };
        match (verifier, self) {
            (Verifier::Rsa(parameters), PublicKey::Rsa { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, signed, signature).is_ok()
            }
            (Verifier::Other(with), PublicKey::P256(key) | PublicKey::P384(key) | PublicKey::Ed25519(key)) => {
                UnparsedPublicKey::new(with, key).verify(signed, signature).is_ok()
            }
            (Verifier::Rsa(_) | Verifier::Other(_), _) => false,
        }
    }
}
