"""Makes a JWK Set in the file of the first argument, and prints tokens as JSON: name, token.

Names that begin with "good" are tokens of user shop; all others must be refused.
"""
import base64
import hashlib
import hmac
import json
import sys
import time

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER, AUDIENCE = "https://login.example.com/", "larder"
now = int(time.time())
keys = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p384": ec.generate_private_key(ec.SECP384R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
    "only-ps256": rsa.generate_private_key(65537, 2048),
    "encryption": rsa.generate_private_key(65537, 2048),
    "p521": ec.generate_private_key(ec.SECP521R1()),
}
kinds = {"rsa": RSAAlgorithm, "only-ps256": RSAAlgorithm, "encryption": RSAAlgorithm, "ed25519": OKPAlgorithm}
public = []
for name, key in keys.items():
    jwk = kinds.get(name, ECAlgorithm).to_jwk(key.public_key(), as_dict=True)
    only = {"alg": "PS256"} if name == "only-ps256" else {}
    public.append({**jwk, **only, "kid": name, "use": "enc" if name == "encryption" else "sig"})
with open(sys.argv[1], "w") as file:
    json.dump({"keys": public}, file)


def claims(**more):
    return {"iss": ISSUER, "aud": AUDIENCE, "sub": "shop", "iat": now, "exp": now + 3600, **more}


def signed(algorithm="RS256", key="rsa", headers=None, **more):
    return jwt.encode(claims(**more), keys[key], algorithm, {"kid": key, **(headers or {})})


def encoded(data):
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def with_secret(secret, header):
    text = encoded(header) + "." + encoded(claims())
    return text + "." + encoded(hmac.new(secret, text.encode(), hashlib.sha256).digest())


def pem(name):
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return keys[name].public_key().public_bytes(serialization.Encoding.PEM, form)


tokens = {}
for algorithm in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]:
    tokens["good " + algorithm] = signed(algorithm)
for algorithm, key in [("ES256", "p256"), ("ES384", "p384"), ("EdDSA", "ed25519")]:
    tokens["good " + algorithm] = signed(algorithm, key)
tokens["good PS256 of a key for PS256"] = signed("PS256", "only-ps256")
tokens["good without kid"] = jwt.encode(claims(), keys["p256"], "ES256")
tokens["good with several audiences"] = signed(aud=["other", AUDIENCE])
good = signed()
header, body, signature = good.split(".")
tokens |= {
    "none": jwt.encode(claims(), None, "none"),
    "none in capitals, with a signature": encoded({"alg": "NONE", "kid": "rsa"}) + f".{body}.{signature}",
    "HS256 with the public key as the secret": with_secret(pem("rsa"), {"alg": "HS256", "kid": "rsa", "typ": "JWT"}),
    "HS256 with the key file as the secret": with_secret(open(sys.argv[1], "rb").read(), {"alg": "HS256"}),
    "HS256 with an empty secret": with_secret(b"", {"alg": "HS256", "kid": "/dev/null"}),
    "kid is a path": signed(headers={"kid": "../../../dev/null"}),
    "kid is the file": signed(headers={"kid": sys.argv[1]}),
    "kid of another key": signed(headers={"kid": "p256"}),
    "a key of its own": jwt.encode(
        claims(),
        keys["encryption"],
        "RS256",
        {"jwk": RSAAlgorithm.to_jwk(keys["encryption"].public_key(), as_dict=True), "kid": "rsa"},
    ),
    "a key for encryption": signed(key="encryption"),
    "an algorithm that the key is not for": signed("RS256", "only-ps256"),
    "without kid, of several keys": jwt.encode(claims(), keys["rsa"], "PS256"),
    "ES512": signed("ES512", "p521"),
    "expired": signed(exp=now - 3600),
    "without exp": jwt.encode({"iss": ISSUER, "aud": AUDIENCE, "sub": "shop"}, keys["rsa"], "RS256", {"kid": "rsa"}),
    "not yet valid": signed(nbf=now + 3600),
    "another audience": signed(aud="other"),
    "another issuer": signed(iss="https://login.example.com"),
    "a user that does not exist": signed(sub="nobody"),
    "a user that is off": signed(sub="off"),
    "another body": f"{header}.{encoded(claims(sub='admin'))}.{signature}",
    "another header": encoded({"alg": "RS384", "kid": "rsa"}) + f".{body}.{signature}",
    "without signature": f"{header}.{body}.",
    "cut": good[:-1],
    "with padding": good + "=",
    "four parts": good + ".",
    "crit": signed(headers={"crit": ["exp"]}),
    "a logout token": signed(headers={"typ": "logout+jwt"}),
    "duplicate claims": jwt.PyJWS().encode(
        json.dumps(claims())[:-1].encode() + b', "sub": "admin"}', keys["rsa"], "RS256", {"kid": "rsa"}
    ),
    "too long": signed(more="x" * 20000),
}
# Verified by the library itself, so that what is refused is refused for the one reason.
jwt.decode(good, keys["rsa"].public_key(), ["RS256"], audience=AUDIENCE, issuer=ISSUER)
# Ends while the test runs: the clocks may be 30 s apart.
tokens["ends soon"] = signed(exp=now - 30 + int(sys.argv[2]))
print(json.dumps(tokens))
