"""Callers by JSON Web Token, with real keys and a real JWKS server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt import api_jws
from jwt.algorithms import get_default_algorithms

from feedback.errors import NotAvailable, SettingsError
from producer_client.http.authentication import CallerRecognition
from producer_client.http.callers import NotAuthenticated, SignersUnknown, recognise
from producer_client.http.jwt_callers import JwtCallers
from producer_client.http.signers import (
    AFTER_FAILURE_S,
    BETWEEN_S,
    FRESH_S,
    LASTING_S,
    SignersOfAddress,
    SignersOfFile,
    signers_of,
)

ISSUER = "https://id.example/realm"
DAY_S = 86_400
RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
PEM = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
ALLOWED = ("RS256", "ES256")


def jwk(private: Any, algorithm: str, **more: Any) -> dict[str, Any]:
    public = get_default_algorithms()[algorithm].to_jwk(private.public_key(), as_dict=True)
    return {name: value for name, value in {**public, **more}.items() if name != "key_ops"}


def jwks(*keys: Any) -> bytes:
    return json.dumps({"keys": keys}).encode()


def token(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "one", **claims: Any) -> str:
    given = {"iss": ISSUER, "aud": "door", "sub": "alice", "exp": int(time.time()) + DAY_S}
    kept = {name: value for name, value in {**given, **claims}.items() if value is not None}
    header = {"typ": "JWT"} if kid is None else {"kid": kid}
    # PyJWT refuses to make some of the wrong ones.
    return api_jws.encode(json.dumps(kept).encode(), key, algorithm, header)


def forged(header: dict[str, Any], claims: bytes = b"{}", signature: bytes = b"x") -> str:
    parts = (json.dumps(header).encode(), claims, signature)
    return ".".join(base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in parts)


def hs256_with_the_public_key() -> str:
    """PyJWT itself refuses to make it."""
    claims = {"iss": ISSUER, "aud": "door", "sub": "alice", "exp": int(time.time()) + DAY_S}
    unsigned = forged({"alg": "HS256", "kid": "one"}, json.dumps(claims).encode(), b"")[:-1]
    signature = hmac.digest(PEM, unsigned.encode(), hashlib.sha256)
    return f"{unsigned}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def callers(signers: Any, algorithms: tuple[str, ...] = ALLOWED) -> JwtCallers:
    return JwtCallers(signers, issuer=ISSUER, audience="door", algorithms=algorithms)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_bytes(jwks(jwk(RSA, "RS256", kid="one"), jwk(EC, "ES256", kid="ec")))
    return path


GOOD = {
    "RS256": lambda: token(),
    "ES256": lambda: token(EC, "ES256", "ec"),
    "no kid, and no choice": lambda: token(kid=None),
    "audiences": lambda: token(aud=["other", "door"]),
    "the provider's clock is ahead": lambda: token(nbf=int(time.time()) + 20),
}
BAD: dict[str, Callable[[], str]] = {
    "no algorithm": lambda: token(None, "none"),
    "none in capitals": lambda: forged({"alg": "NONE", "kid": "one"}),
    "HS256 with the public key": hs256_with_the_public_key,
    "an algorithm that is not allowed": lambda: token(RSA, "RS512"),
    "PS256 with its RSA key": lambda: token(RSA, "PS256"),
    "the other key's algorithm": lambda: forged({"alg": "ES256", "kid": "one"}),
    "another key": lambda: token(OTHER_RSA),
    "unknown kid": lambda: token(kid="two"),
    "kid is a path": lambda: token(kid="../../etc/passwd"),
    "kid is a list": lambda: forged({"alg": "RS256", "kid": ["one"]}),
    "alg is a list": lambda: forged({"alg": ["RS256"], "kid": "one"}),
    "header is a list": lambda: forged([1]),  # type: ignore[arg-type]
    "key in the header": lambda: jwt.encode(
        {"sub": "alice"}, OTHER_RSA, "RS256", headers={"jwk": jwk(OTHER_RSA, "RS256")}
    ),
    "a critical extension": lambda: jwt.encode(
        {"sub": "alice"}, RSA, "RS256", headers={"kid": "one", "crit": ["x"], "x": 1}
    ),
    "another issuer": lambda: token(iss=ISSUER + "/"),
    "issuers": lambda: token(iss=[ISSUER]),
    "another audience": lambda: token(aud="doors"),
    "no audience": lambda: token(aud=None),
    "no end": lambda: token(exp=None),
    "over": lambda: token(exp=int(time.time()) - 31),
    "an end that is no number": lambda: token(exp="soon"),
    "an end beyond all time": lambda: token(exp=1e400),
    "not yet": lambda: token(nbf=int(time.time()) + 60),
    "no subject": lambda: token(sub=None),
    "an empty subject": lambda: token(sub=""),
    "a subject that is a number": lambda: token(sub=7),
    "a subject without end": lambda: token(sub="a" * 257),
    "two parts": lambda: "a.b",
    "four parts": lambda: token() + ".x",
    "nothing": lambda: "",
    "dots": lambda: "..",
    "deep": lambda: forged({"alg": "RS256", "kid": "one"}, b"[" * 3000),
    "another signature": lambda: token()[:-8] + "AAAAAAAA",
}


@pytest.mark.parametrize("name", GOOD)
def test_a_valid_token_is_its_subject(file: Path, name: str) -> None:
    found = callers(SignersOfFile(file, ALLOWED)).caller_of(GOOD[name]())
    assert (found.name, found.may_submit, found.may_read) == (f"jwt:{ISSUER}|alice", None, None)


@pytest.mark.parametrize("name", BAD)
def test_any_other_token_is_refused_without_a_word_of_it(file: Path, name: str) -> None:
    text = BAD[name]()
    with pytest.raises(NotAuthenticated) as refused:
        callers(SignersOfFile(file, ALLOWED)).caller_of(text)
    assert "alice" not in refused.value.reason
    assert not text or text not in refused.value.reason


def test_other_algorithms_are_used_where_they_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(jwks(jwk(ED, "EdDSA", kid="one"), jwk(RSA, "PS256", kid="one")))
    allowed = ("EdDSA", "PS256")
    found = callers(SignersOfFile(path, allowed), allowed)
    for key, algorithm in ((ED, "EdDSA"), (RSA, "PS256")):
        assert found.caller_of(token(key, algorithm)).name.endswith("|alice")


def test_keys_that_cannot_be_used_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "one"}
    encrypts = jwk(RSA, "RS256", kid="two", use="enc")
    broken = {**jwk(RSA, "RS256", kid="three"), "n": 5}
    unknown = {"kty": "POST-QUANTUM", "kid": "four"}
    path.write_bytes(jwks(secret, encrypts, broken, unknown, {"kty": []}, 7, None, {"kid": 1}))
    signers = SignersOfFile(path, ALLOWED)
    for kid in ("one", "two", "three", "four", None):
        with pytest.raises(NotAuthenticated):
            signers.key(kid, "RS256")


def test_a_file_is_read_again_when_the_keys_rotate(file: Path) -> None:
    known = callers(SignersOfFile(file, ALLOWED))
    assert known.caller_of(token())
    file.write_bytes(jwks(jwk(OTHER_RSA, "RS256", kid="two")))
    assert known.caller_of(token(OTHER_RSA, kid="two"))
    with pytest.raises(NotAuthenticated):
        known.caller_of(token())
    file.write_bytes(b'{"keys": 7}')
    with pytest.raises(NotAvailable):
        known.caller_of(token(OTHER_RSA, kid="two"))


class Provider:
    """An identity provider's address, and how often it was asked."""

    def __init__(self) -> None:
        provider = self
        self.answer: tuple[int, bytes] = 200, jwks(jwk(RSA, "RS256", kid="one"))
        self.asked = 0
        self.goes_on = threading.Event()
        self.goes_on.set()

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                provider.goes_on.wait(20)
                status, body = provider.answer
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self._server.server_port}/jwks"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    one = Provider()
    yield one
    one.goes_on.set()
    one.close()


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def name_of(known: JwtCallers, text: str) -> str:
    """Return the caller's name, as a door finds it that waits for keys."""
    headers = {"authorization": f"Bearer {text}"}
    way = CallerRecognition(proxy=None, keys=None, tokens=known)
    return asyncio.run(recognise(way, headers, "203.0.113.9")).name


def test_an_address_is_asked_for_a_key_that_is_new(provider: Provider) -> None:
    clock = Clock()
    known = callers(SignersOfAddress(provider.url, ALLOWED, clock=clock))
    assert name_of(known, token()) == f"jwt:{ISSUER}|alice"
    provider.answer = 200, jwks(jwk(OTHER_RSA, "RS256", kid="two"))
    # Known keys ask nobody.
    assert name_of(known, token()) and provider.asked == 1
    clock.now_s += BETWEEN_S
    assert name_of(known, token(OTHER_RSA, kid="two")) and provider.asked == 2
    # The provider has withdrawn the first one; invented ids do not make us ask again.
    for kid in ("one", "three", "four"):
        with pytest.raises(NotAuthenticated):
            name_of(known, token(kid=kid))
    assert provider.asked == 2


@pytest.mark.parametrize(
    "answer", [(503, b""), (302, b""), (200, b"<html>"), (200, b'{"keys":{}}')]
)
def test_a_provider_that_is_away_is_no_refusal(
    provider: Provider, answer: tuple[int, bytes]
) -> None:
    clock = Clock()
    keys = provider.answer
    provider.answer = answer
    known = callers(SignersOfAddress(provider.url, ALLOWED, clock=clock))
    with pytest.raises(SignersUnknown):
        name_of(known, token())
    provider.answer = keys
    # It was asked a moment ago.
    with pytest.raises(SignersUnknown):
        name_of(known, token())
    assert provider.asked == 1
    clock.now_s += AFTER_FAILURE_S
    assert name_of(known, token())
    provider.answer = answer
    clock.now_s += BETWEEN_S
    with pytest.raises(SignersUnknown):
        name_of(known, token(kid="new"))
    # Its keys outlive an outage, but not for ever: it may have withdrawn them.
    clock.now_s += FRESH_S
    assert name_of(known, token())
    clock.now_s += LASTING_S
    with pytest.raises(SignersUnknown):
        name_of(known, token())
    provider.answer = keys
    clock.now_s += AFTER_FAILURE_S
    assert name_of(known, token())


def test_callers_who_wait_for_the_keys_ask_once_and_one_may_leave(provider: Provider) -> None:
    provider.goes_on.clear()
    known = callers(SignersOfAddress(provider.url, ALLOWED))
    way = CallerRecognition(proxy=None, keys=None, tokens=known)
    headers = {"authorization": f"Bearer {token()}"}

    async def calls() -> list[Any]:
        tasks = [asyncio.create_task(recognise(way, headers, "")) for _ in range(50)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        provider.goes_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    gone, *found = asyncio.run(calls())
    assert isinstance(gone, asyncio.CancelledError)
    assert {one.name for one in found} == {f"jwt:{ISSUER}|alice"}
    assert provider.asked == 1


@pytest.mark.parametrize("address", ["http://id.example/jwks", "https:///jwks", "http://"])
def test_keys_are_not_taken_from_an_address_that_anybody_may_answer(address: str) -> None:
    with pytest.raises(SettingsError, match="https"):
        signers_of(address, ALLOWED)
