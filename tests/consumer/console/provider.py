"""An OpenID Connect provider under test: it signs what a test wants, also lies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlencode

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.producer_client.http.conftest import AppServer
from tests.stack.authority import Certificate

CLIENT_ID = "the console"
CLIENT_SECRET = "s3cret: &%41+"
ACCESS = "an access token"


def new_key(name: str = "first") -> RSAKey:
    """Return a key of this name."""
    return RSAKey.generate_key(2048, parameters={"kid": name})


@cache
def usual_key() -> RSAKey:
    """Return the key of all providers of a test run: to make one takes 60 ms of processor."""
    return new_key()


@dataclass
class Provider:
    """A provider whose people are logged in already.

    Attributes:
        claims: of the person, beside what each token has; None leaves one out.
        metadata: in place of what it says of itself.
        key: that signs; `published` are those that it names, and `strange_keys` come before them.
        algorithm: that it signs with.
        shared: the secret of HS256.
        says: beside code and state, as it sends a browser back.
        told: of the person of each access token; it says so where this is not empty.
        denies: the error with which it sends each browser back; empty for none.
        codes: what was asked with each code.
        asked: the bodies of questions for tokens.
        hangs: until this is set.
    """

    claims: dict[str, Any] = field(
        default_factory=lambda: {"email": "vera@shop.example", "email_verified": True}
    )
    metadata: dict[str, Any] = field(default_factory=dict)
    key: RSAKey | ECKey | OKPKey = field(default_factory=usual_key)
    published: list[RSAKey] = field(default_factory=list)
    strange_keys: list[Any] = field(default_factory=list)
    algorithm: str = "RS256"
    shared: bytes = CLIENT_SECRET.encode() * 4
    says: dict[str, str] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)
    denies: str = ""
    issuer: str = ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[tuple[dict[str, str], str]] = field(default_factory=list)
    hangs: threading.Event | None = None

    def app(self) -> Starlette:
        """Return it as an application."""
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._configuration),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/keys", self._keys),
                Route("/told", self._told),
            ]
        )

    def _configuration(self, request: Request) -> Response:
        said = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": [self.algorithm, "RS256", "HS256", "none"],
        }
        if self.told:
            said["userinfo_endpoint"] = f"{self.issuer}/told"
        return JSONResponse(said | self.metadata)

    def _authorize(self, request: Request) -> Response:
        given = dict(request.query_params)
        assert given["response_type"] == "code" and given["client_id"] == CLIENT_ID
        assert given["code_challenge_method"] == "S256"
        answer = {"state": given["state"], **self.says}
        if self.denies:
            answer["error"] = self.denies
        else:
            answer["code"] = secrets.token_urlsafe()
            self.codes[answer["code"]] = given
        return RedirectResponse(f"{given['redirect_uri']}?{urlencode(answer)}", 302)

    async def _token(self, request: Request) -> Response:
        fields = {name: one[0] for name, one in parse_qs((await request.body()).decode()).items()}
        return await run_in_threadpool(self._exchanged, request, fields)

    def _exchanged(self, request: Request, fields: dict[str, str]) -> Response:
        if self.hangs is not None:
            self.hangs.wait(60)
        self.asked.append((fields, request.headers.get("authorization", "")))
        begun = self.codes.pop(fields.get("code", ""), None)
        if begun is None or begun["redirect_uri"] != fields["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        assert _encoded(digest) == begun["code_challenge"]
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "17",
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 60,
            "nonce": begun["nonce"],
        } | self.claims
        told = {name: one for name, one in claims.items() if one is not None}
        return JSONResponse(
            {"access_token": ACCESS, "token_type": "Bearer", "id_token": self._signed(told)}
        )

    def _signed(self, claims: dict[str, Any]) -> str:
        header = {"alg": self.algorithm, "kid": self.key.kid}
        if self.algorithm == "none":
            return f"{_part(header)}.{_part(claims)}."
        if self.algorithm == "HS256":
            said = f"{_part(header)}.{_part(claims)}"
            return f"{said}.{_encoded(hmac.digest(self.shared, said.encode(), 'sha256'))}"
        return jwt.encode(header, claims, self.key, algorithms=[self.algorithm])

    def _keys(self, request: Request) -> Response:
        named: Any = self.published or [self.key]
        own = KeySet(named).as_dict(private=False)
        return JSONResponse({"keys": [*self.strange_keys, *own["keys"]]})

    def _told(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {ACCESS}":
            return JSONResponse({"error": "invalid_token"}, 401)
        return JSONResponse(self.told)


def _part(said: dict[str, Any]) -> str:
    return _encoded(json.dumps(said).encode())


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@contextmanager
def provider(certificate: Certificate | None = None) -> Iterator[Provider]:
    """Yield a provider that is served.

    Args:
        certificate: with TLS; None for none.
    """
    made = Provider()
    server = AppServer(made.app(), certificate=certificate)
    made.issuer = str(server.http.base_url).rstrip("/")
    try:
        yield made
    finally:
        server.close()
