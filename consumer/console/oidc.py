"""OpenID Connect: the name of a person, as the provider of an organization says it.

The authorization code flow with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636). Between its
two halves the browser keeps its secrets in a signed cookie: `oidc_pages` sets it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import requests
from authlib.common.security import generate_token
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from feedback.clock import monotonic_s
from feedback.console.printable import printable
from feedback.errors import NotAvailable
from feedback.settings.secret_files import SecretFile
from feedback.settings.sections import ConsoleSection

ANSWER_S = 10.0
# The addresses and the keys of a provider, which it may replace.
KNOWN_S = 600.0
CLOCK_SKEW_S = 60
# Signed with the provider's private key. One that is signed with the secret of this client, or not
# at all, could be anybody's.
_SIGNED = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
# Of providers that do not say it (OpenID Connect Discovery 1.0, section 3).
_USUAL = "RS256"


class OidcRefused(Exception):
    """A login at the provider is none here; its text says why."""


class Begun(NamedTuple):
    """The first half of a login, for the browser to keep.

    Attributes:
        state: that the provider sends back with the browser.
        nonce: that stands in the token.
        verifier: the secret of PKCE.
    """

    state: str
    nonce: str
    verifier: str


class _Provider(NamedTuple):
    """The provider as it describes itself, and until when that counts.

    Attributes:
        algorithms: that it signs with, as far as they count.
        takes_secret_in_form: whether it does not take the client's secret in a header.
    """

    metadata: Mapping[str, Any]
    keys: KeySet
    algorithms: Sequence[str]
    takes_secret_in_form: bool
    until_s: float


class OidcClient:
    """Asks one provider; any thread may call it.

    Args:
        section: with `oidc_issuer` and `oidc_client_id`.
    """

    def __init__(self, section: ConsoleSection) -> None:
        self._section = section
        self._secret = (
            SecretFile("console", SECRET_SETTING, section.oidc_client_secret_file)
            if section.oidc_client_secret_file
            else None
        )
        self._turn = threading.Lock()
        self._provider: _Provider | None = None

    @property
    def host(self) -> str:
        """The provider's name for a person."""
        return urlsplit(self._section.oidc_issuer).netloc

    def begin(self, callback: str) -> tuple[str, Begun]:
        """Return the address to which the browser goes, and the first half for it to keep.

        Args:
            callback: the address of the second half, which the provider knows.

        Raises:
            NotAvailable: the provider does not say where that is.
        """
        begun = Begun(secrets.token_urlsafe(32), secrets.token_urlsafe(32), generate_token(64))
        with self._session(callback) as session:
            url, _ = session.create_authorization_url(
                self._known().metadata["authorization_endpoint"],
                state=begun.state,
                nonce=begun.nonce,
                code_verifier=begun.verifier,
            )
        return url, begun

    def end(self, callback: str, answer: Mapping[str, str], begun: Begun) -> str:
        """Return the name of the person with whom a browser comes back.

        Args:
            callback: as it was given to `begin`.
            answer: the words of the address with which the browser comes.
            begun: the first half, which the browser has kept.

        Raises:
            OidcRefused: the provider, or its token, says no.
            NotAvailable: the provider does not answer.
        """
        if not secrets.compare_digest(answer.get("state", "").encode(), begun.state.encode()):
            raise OidcRefused("this login was not begun in this browser: begin it anew")
        if "error" in answer:
            raise OidcRefused(f"{self.host} says {printable(answer['error'][:100])}")
        metadata = self._known().metadata
        with self._session(callback) as session:
            try:
                token = session.fetch_token(
                    metadata["token_endpoint"],
                    code=answer.get("code", ""),
                    grant_type="authorization_code",
                    code_verifier=begun.verifier,
                    redirect_uri=callback,
                )
            except OAuthError as error:
                raise OidcRefused(f"{self.host} says {printable(str(error.error)[:100])}") from None
        return self._name_of(self._claims(token, begun))

    def _claims(self, token: Mapping[str, Any], begun: Begun) -> Mapping[str, Any]:
        """Return the claims of the provider's token.

        Raises:
            OidcRefused: it is no token of this provider, for this console and this login.
        """
        wanted = {
            "iss": {"essential": True, "value": self._section.oidc_issuer},
            "aud": {"essential": True, "value": self._section.oidc_client_id},
        }
        of_login = {
            "nonce": begun.nonce,
            "client_id": self._section.oidc_client_id,
            "access_token": token.get("access_token"),
        }
        try:
            decoded = self._decoded(str(token.get("id_token")))
            claims = CodeIDToken(decoded.claims, decoded.header, wanted, of_login)
            claims.validate(leeway=CLOCK_SKEW_S)
        except (JoseError, ValueError) as error:
            raise OidcRefused(f"the token of {self.host} does not count: {error}") from None
        return dict(claims)

    def _decoded(self, token: str) -> jwt.Token:
        known = self._known()
        registry = JWSRegistry(algorithms=[*known.algorithms], strict_check_header=False)
        try:
            return jwt.decode(token, known.keys, registry=registry)
        except InvalidKeyIdError:
            # The provider has renewed its keys.
            return jwt.decode(token, self._known(anew=True).keys, registry=registry)

    def _name_of(self, claims: Mapping[str, Any]) -> str:
        claim = self._section.oidc_claim
        name = claims.get(claim)
        if not isinstance(name, str) or not name:
            raise OidcRefused(f"{self.host} does not say the {claim} of this person")
        # Else a person may type that of another one into a form of the provider.
        if claim == "email" and claims.get("email_verified") is not True:
            raise OidcRefused(f"{self.host} does not say that this e-mail address is verified")
        return name

    def _known(self, *, anew: bool = False) -> _Provider:
        with self._turn:
            found = self._provider
            if anew or found is None or found.until_s < monotonic_s():
                found = self._provider = self._asked()
            return found

    def _asked(self) -> _Provider:
        issuer = self._section.oidc_issuer
        with self._answers(), requests.Session() as session:
            metadata = _object(session, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if metadata.get("issuer") != issuer:
                said = printable(str(metadata.get("issuer"))[:200])
                raise NotAvailable(f"[console] oidc_issuer is {issuer}, and says that it is {said}")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                where = urlsplit(str(metadata.get(name)))
                # In the clear is a provider on this host alone: see `oidc_issuer`.
                if where.scheme != "https" and where[:2] != urlsplit(issuer)[:2]:
                    raise NotAvailable(f"{self.host} has no {name} of https://")
            keys = KeySet.import_key_set(cast(Any, _object(session, metadata["jwks_uri"])))
            signs = metadata.get("id_token_signing_alg_values_supported") or [_USUAL]
            algorithms = sorted(_SIGNED.intersection(signs))
            if not algorithms:
                raise NotAvailable(f"{self.host} signs its tokens with no key of its own")
            methods = metadata.get("token_endpoint_auth_methods_supported") or []
            in_form = "client_secret_basic" not in methods and "client_secret_post" in methods
        return _Provider(metadata, keys, algorithms, in_form, monotonic_s() + KNOWN_S)

    @contextmanager
    def _session(self, callback: str) -> Iterator[OAuth2Session]:
        in_form = self._known().takes_secret_in_form
        secret = None if self._secret is None else self._secret.read()
        with (
            self._answers(),
            OAuth2Session(
                self._section.oidc_client_id,
                secret,
                token_endpoint_auth_method="client_secret_post" if secret and in_form else None,
                scope=self._section.oidc_scope,
                redirect_uri=callback,
                code_challenge_method="S256",
                default_timeout=ANSWER_S,
            ) as session,
        ):
            yield session

    @contextmanager
    def _answers(self) -> Iterator[None]:
        try:
            yield
        except (requests.RequestException, JoseError, ValueError, TypeError, KeyError) as error:
            # Neither its address nor its text: both may hold a code.
            why = type(error).__name__
            raise NotAvailable(f"the login at {self.host} cannot be asked now ({why})") from error


SECRET_SETTING = "[console] oidc_client_secret_file"


def _object(session: requests.Session, url: str) -> dict[str, Any]:
    answer = session.get(url, timeout=ANSWER_S, headers={"Accept": "application/json"})
    answer.raise_for_status()
    found = answer.json()
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found
