"""OpenID Connect: the name of a person, as the provider of an organization says it.

The authorization code flow with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636). Between its
two halves the browser keeps its secrets in a signed cookie: `oidc_pages` sets it. `oidc_provider`
has the addresses and the keys of the provider.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

from authlib.common.security import generate_token
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from consumer.console.oidc_provider import ANSWER_S, OidcProvider, ProviderFacts
from feedback.console.printable import printable
from feedback.settings.secret_files import SecretFile
from feedback.settings.sections import ConsoleSection

CLOCK_SKEW_S = 60
VERIFIED = "email_verified"
SECRET_SETTING = "[console] oidc_client_secret_file"


class OidcRefused(Exception):
    """A login at the provider is none here; its text says why."""


class BegunLogin(NamedTuple):
    """The first half of a login, for the browser to keep.

    Attributes:
        state: that the provider sends back with the browser.
        nonce: that stands in the token.
        verifier: the secret of PKCE.
    """

    state: str
    nonce: str
    verifier: str


class OidcClient:
    """Asks one provider; any thread may call it.

    Args:
        section: with `oidc_issuer` and `oidc_client_id`.

    Raises:
        NotAvailable: see `OidcProvider`.
    """

    def __init__(self, section: ConsoleSection) -> None:
        self._section = section
        self._secret = (
            SecretFile("console", SECRET_SETTING, section.oidc_client_secret_file)
            if section.oidc_client_secret_file
            else None
        )
        self._provider = OidcProvider(section)

    @property
    def host(self) -> str:
        """The provider's name for a person."""
        return self._provider.host

    def begin(self, callback: str) -> tuple[str, BegunLogin]:
        """Return the address to which the browser goes, and the first half for it to keep.

        Args:
            callback: the address of the second half, which the provider knows.

        Raises:
            NotAvailable: the provider does not say where that is.
        """
        begun = BegunLogin(secrets.token_urlsafe(32), secrets.token_urlsafe(32), generate_token(64))
        with self._session(callback) as session:
            url, _ = session.create_authorization_url(
                self._provider.facts().metadata["authorization_endpoint"],
                state=begun.state,
                nonce=begun.nonce,
                code_verifier=begun.verifier,
            )
        return url, begun

    def end(self, callback: str, answer: Mapping[str, str], begun: BegunLogin) -> str:
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
        metadata = self._provider.facts().metadata
        # RFC 9207: another provider has sent the browser here, perhaps for a code of its own.
        says_issuer = metadata.get("authorization_response_iss_parameter_supported") is True
        issuer = self._section.oidc_issuer
        if answer.get("iss", "" if says_issuer else issuer) != issuer:
            raise OidcRefused(f"it is not {self.host} that has sent this browser back")
        if "error" in answer:
            raise OidcRefused(f"{self.host} says {printable(answer['error'][:100])}")
        with self._session(callback) as session:
            try:
                token = session.fetch_token(
                    metadata["token_endpoint"],
                    code=answer.get("code", ""),
                    grant_type="authorization_code",
                    code_verifier=begun.verifier,
                    redirect_uri=callback,
                    auth=self._login(),
                    verify=self._provider.verify,
                )
            except OAuthError as error:
                raise OidcRefused(f"{self.host} says {printable(str(error.error)[:100])}") from None
        claims = self._claims(token, begun)
        needed = {self._section.oidc_claim} | ({VERIFIED} if self._is_by_email else set())
        if not needed <= claims.keys():
            # Where there is an access token, the claims of a scope are told for that one, and need
            # not stand in the ID token (OpenID Connect Core 1.0, section 5.4).
            told = self._provider.told_of(str(token.get("access_token")))
            if told and told.get("sub") != claims["sub"]:
                raise OidcRefused(f"{self.host} tells of another person than of this one")
            claims = told or claims
        return self._name_of(claims)

    def _claims(self, token: Mapping[str, Any], begun: BegunLogin) -> Mapping[str, Any]:
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
        except (JoseError, ValueError, TypeError) as error:
            why = printable(str(error)[:200])
            raise OidcRefused(f"the token of {self.host} does not count: {why}") from None
        return dict(claims)

    def _decoded(self, token: str) -> jwt.Token:
        try:
            return self._decoded_by(self._provider.facts(), token)
        except JoseError:
            # The provider may have renewed its keys, also one without a name.
            return self._decoded_by(self._provider.facts(anew=True), token)

    def _decoded_by(self, facts: ProviderFacts, token: str) -> jwt.Token:
        registry = JWSRegistry(algorithms=[*facts.algorithms], strict_check_header=False)
        return jwt.decode(token, facts.keys, registry=registry)

    @property
    def _is_by_email(self) -> bool:
        return self._section.oidc_claim == "email"

    def _name_of(self, claims: Mapping[str, Any]) -> str:
        claim = self._section.oidc_claim
        name = claims.get(claim)
        if not isinstance(name, str) or not name:
            raise OidcRefused(f"{self.host} does not say the {claim} of this person")
        # Else a person may type that of another one into a form of the provider.
        if self._is_by_email and claims.get(VERIFIED) is not True:
            raise OidcRefused(f"{self.host} does not say that this e-mail address is verified")
        return name

    def _login(self) -> tuple[str, str] | None:
        """Return the login of this client for a header; None where it goes into the form."""
        if self._secret is None or self._provider.facts().takes_secret_in_form:
            return None
        # RFC 6749, section 2.3.1; a colon would end the name.
        return quote(self._section.oidc_client_id, safe=""), quote(self._secret.read(), safe="")

    @contextmanager
    def _session(self, callback: str) -> Iterator[OAuth2Session]:
        in_form = self._provider.facts().takes_secret_in_form
        secret = self._secret.read() if self._secret is not None and in_form else None
        with (
            self._provider.answers(),
            OAuth2Session(
                self._section.oidc_client_id,
                secret,
                token_endpoint_auth_method="client_secret_post" if secret else None,
                scope=self._section.oidc_scope,
                redirect_uri=callback,
                code_challenge_method="S256",
                default_timeout=ANSWER_S,
            ) as session,
        ):
            yield session
