"""All ways of the settings to recognise callers; anybody is let in on loopback alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from feedback.errors import SettingsError
from feedback.settings.http_section import HttpSection
from feedback.web.hosts import is_loopback
from producer_client.http.callers import (
    ANONYMOUS,
    Authentication,
    Caller,
    NotAuthenticated,
    bearer,
    invalid,
)
from producer_client.http.keys import PREFIX, ApiKeys
from producer_client.http.proxy_callers import ProxyCallers


class _Bearers(Protocol):
    def caller_of(self, text: str) -> Caller: ...


class CallerRecognition:
    """Recognises callers by their proxy, else by an API key or a token.

    The names of callers begin with the way they are known by: a user of the proxy is never the
    caller of a key.
    """

    def __init__(
        self, *, proxy: ProxyCallers | None, keys: _Bearers | None, tokens: _Bearers | None
    ) -> None:
        self._proxy = proxy
        self._keys = keys
        self._tokens = tokens

    def caller(self, headers: Mapping[str, str], address: str) -> Caller:
        """Return the caller; see `Authentication`."""
        if self._proxy is not None:
            found = self._proxy.caller_of(headers, address)
            if found is not None:
                return found
        text = bearer(headers)
        way = self._keys if text.startswith(PREFIX) else self._tokens
        if way is None:
            raise invalid("callers are not known by this kind of credentials")
        return way.caller_of(text)


class Anonymous:
    """Everybody on this host is one caller, without a name.

    A page of a stranger in a browser on this host is refused: it sends its own `Origin`, or, by a
    DNS name of its own that leads here, its own `Host`.
    """

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._origins = origins

    def caller(self, headers: Mapping[str, str], address: str) -> Caller:
        """Return it."""
        origin = headers.get("origin")
        if not _names_loopback(f"//{headers.get('host', '')}"):
            raise NotAuthenticated("it calls this host by another name")
        if origin is not None and origin not in self._origins and not _names_loopback(origin):
            raise NotAuthenticated("it is a page from elsewhere")
        return ANONYMOUS


@lru_cache(64)
def _names_loopback(address: str) -> bool:
    try:
        return is_loopback(urlsplit(address).hostname or "")
    except ValueError:
        return False


def authentication_of(section: HttpSection) -> Authentication:
    """Return the ways of the settings to recognise callers.

    Raises:
        SettingsError: they are wrong; or there is none, and others than this host may call.
        NotAvailable: a file of theirs cannot be read.
    """
    proxy = keys = tokens = None
    if section.proxy_addresses:
        proxy = ProxyCallers(section.proxy_addresses, section.proxy_header)
    if section.keys_file:
        keys = ApiKeys(Path(section.keys_file))
    if section.jwks:
        tokens = tokens_of(section)
    if proxy or keys or tokens:
        return CallerRecognition(proxy=proxy, keys=keys, tokens=tokens)
    if not is_loopback(section.host):
        raise SettingsError(
            f"[http] host = {section.host}: callers have to be told apart before others than this "
            "host may call: set keys_file, jwks or proxy_addresses"
        )
    return Anonymous(section.cors_origins)


def tokens_of(section: HttpSection) -> _Bearers:
    """Return the tokens of the settings' identity provider.

    Raises:
        SettingsError, NotAvailable: see `authentication_of`.
    """
    # Without a JWKS nobody loads PyJWT and requests.
    from producer_client.http.jwt_callers import JwtCallers
    from producer_client.http.signers import ALGORITHMS, signers_of

    if not (section.jwt_issuer and section.jwt_audience):
        raise SettingsError("[http] jwks needs jwt_issuer and jwt_audience")
    unknown = [one for one in section.jwt_algorithms if one not in ALGORITHMS]
    if unknown or not section.jwt_algorithms:
        raise SettingsError(f"[http] jwt_algorithms: choose of {', '.join(ALGORITHMS)}")
    return JwtCallers(
        signers_of(section.jwks, section.jwt_algorithms),
        issuer=section.jwt_issuer,
        audience=section.jwt_audience,
        algorithms=section.jwt_algorithms,
    )
