"""A provider of OpenID Connect as it describes itself (OpenID Connect Discovery 1.0).

What it says is kept for a while, and asked anew when a token does not fit it: a provider may renew
its keys, and sign otherwise, at any time.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import requests
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet

from feedback.clock import monotonic_s
from feedback.console.printable import printable
from feedback.errors import NotAvailable
from feedback.settings.sections import ConsoleSection

ANSWER_S = 10.0
# The addresses and the keys of a provider, which it may replace.
KNOWN_S = 600.0
# Signed with the provider's private key. One that is signed with the secret of this client, or not
# at all, could be anybody's.
_SIGNED = frozenset(
    {
        *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"),
        # The second is the newer name of the first, for keys of that curve (RFC 9864).
        *("EdDSA", "Ed25519"),
    }
)
# Of providers that do not say it (OpenID Connect Discovery 1.0, section 3).
_USUAL = "RS256"
_NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
USERINFO = "userinfo_endpoint"


class ProviderFacts(NamedTuple):
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


class OidcProvider:
    """Asks a provider; any thread may call it.

    Args:
        section: with `oidc_issuer`.

    Attributes:
        verify: by which its certificate is judged, for `requests`; None for the usual authorities.

    Raises:
        NotAvailable: the file of its authority cannot be read.
    """

    def __init__(self, section: ConsoleSection) -> None:
        self._issuer = section.oidc_issuer
        self.verify: Final = section.oidc_ca_file or None
        self._turn = threading.Lock()
        self._facts: ProviderFacts | None = None
        if self.verify is not None:
            try:
                ssl.create_default_context(cafile=self.verify)
            except OSError as error:
                why = error.strerror or "it holds no certificate"
                said = f"[console] oidc_ca_file = {self.verify} cannot be used ({why})"
                raise NotAvailable(said) from error

    @property
    def host(self) -> str:
        """Its name for a person."""
        return urlsplit(self._issuer).netloc

    def facts(self, *, anew: bool = False) -> ProviderFacts:
        """Return what it says of itself.

        Args:
            anew: ask now.

        Raises:
            NotAvailable: it does not answer, or says what cannot count.
        """
        with self._turn:
            found = self._facts
            if anew or found is None or found.until_s < monotonic_s():
                found = self._facts = self._asked()
            return found

    def told_of(self, access_token: str) -> Mapping[str, Any]:
        """Return what it says of the person of an access token; empty where nobody can ask.

        Raises:
            NotAvailable: it does not answer.
        """
        url = self.facts().metadata.get(USERINFO)
        if url is None:
            return {}
        with self.answers(), requests.Session() as session:
            return self._object(session, url, access_token)

    @contextmanager
    def answers(self) -> Iterator[None]:
        """Ask it within this block.

        Raises:
            NotAvailable: it does not answer, or none of its answers.
        """
        try:
            yield
        except (OSError, JoseError, ValueError, TypeError, KeyError) as error:
            # Those of requests are OSErrors, as that of an authority's file which has gone.
            # Neither its address nor its text: both may hold a code.
            why = type(error).__name__
            raise NotAvailable(f"the login at {self.host} cannot be asked now ({why})") from error

    def _asked(self) -> ProviderFacts:
        issuer = self._issuer
        with self.answers(), requests.Session() as session:
            metadata = self._object(
                session, f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            )
            if metadata.get("issuer") != issuer:
                said = printable(str(metadata.get("issuer"))[:200])
                raise NotAvailable(f"[console] oidc_issuer is {issuer}, and says that it is {said}")
            for name in (*_NEEDED, *({USERINFO} & metadata.keys())):
                where = urlsplit(str(metadata.get(name)))
                # In the clear is a provider on this host alone: see `oidc_issuer`.
                if where.scheme != "https" and where[:2] != urlsplit(issuer)[:2]:
                    raise NotAvailable(f"{self.host} has no {name} of https://")
            keys = _keys(self._object(session, metadata["jwks_uri"]))
            signs = metadata.get("id_token_signing_alg_values_supported") or [_USUAL]
            algorithms = sorted(_SIGNED.intersection(signs))
            if not algorithms:
                raise NotAvailable(f"{self.host} signs its tokens with no key of its own")
            methods = metadata.get("token_endpoint_auth_methods_supported") or []
            in_form = "client_secret_basic" not in methods and "client_secret_post" in methods
        return ProviderFacts(metadata, keys, algorithms, in_form, monotonic_s() + KNOWN_S)

    def _object(
        self, session: requests.Session, url: str, access_token: str = ""
    ) -> dict[str, Any]:
        def asked(request: requests.PreparedRequest) -> requests.PreparedRequest:
            if access_token:
                request.headers["Authorization"] = f"Bearer {access_token}"
            return request

        # Each time: a session's own would give way to a variable of the environment. And a login of
        # the user's .netrc is none of this client.
        answer = session.get(
            url,
            timeout=ANSWER_S,
            headers={"Accept": "application/json"},
            auth=asked,
            verify=self.verify,
        )
        answer.raise_for_status()
        found = answer.json()
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
        return found


def _keys(found: Mapping[str, Any]) -> KeySet:
    keys: list[Key] = []
    for one in found["keys"]:
        # Of a kind or a curve that is not known here: no token that it signs would count.
        with suppress(JoseError, ValueError, TypeError, KeyError):
            keys.append(JWKRegistry.import_key(one))
    if not keys:
        raise ValueError("no key that can be used")
    return KeySet(keys)
