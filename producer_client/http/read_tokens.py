"""Read tokens: the holder of one may follow one request for 15 minutes, without credentials.

A browser's EventSource cannot send headers, so the token stands in an address. It opens no other
request, and changes nothing.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets

from feedback.errors import SettingsError
from feedback.logs import EventLog
from feedback.settings.http_section import HttpSection
from feedback.settings.secret_files import SecretFile
from producer_client.http.callers import NotAuthenticated

log = EventLog("onceward.http")

LIFETIME_MS = 15 * 60 * 1000
_LEAST_CHARACTERS = 32
# An id has at most 128 characters.
_MOST_CHARACTERS = 300


class ReadTokens:
    """Makes and checks read tokens.

    Args:
        secret: the same in each process of a door.
        group: tokens of one group open no request of another one.

    >>> tokens = ReadTokens(b"s" * 32, group="payments")
    >>> tokens.check(tokens.issue("order-7", now=0), now=LIFETIME_MS)
    'order-7'
    """

    def __init__(self, secret: bytes, *, group: str) -> None:
        self._key = hmac.digest(secret, b"onceward read token\0" + group.encode(), "sha256")

    def issue(self, request_id: str, now: int) -> str:
        """Return a token for a request."""
        body = _text(f"{now + LIFETIME_MS} {request_id}".encode())
        return f"{body}.{self._signature(body)}"

    def check(self, token: str, now: int) -> str:
        """Return the id of the request that a token opens.

        Raises:
            NotAuthenticated: it is not ours, or its time is over.
        """
        if len(token) > _MOST_CHARACTERS or not token.isascii():
            raise NotAuthenticated("it is no read token")
        body, _, signature = token.rpartition(".")
        if not hmac.compare_digest(self._signature(body), signature):
            raise NotAuthenticated("it is no read token of ours")
        try:
            until, _, request_id = base64.urlsafe_b64decode(body + "==").decode().partition(" ")
            is_over = now > int(until)
        except (ValueError, binascii.Error):
            raise NotAuthenticated("it is a read token of another version") from None
        if is_over:
            raise NotAuthenticated("the time of its read token is over")
        return request_id

    def opens(self, token: str, now: int) -> str | None:
        """Return the id of the request that a token opens; None for one that opens none."""
        try:
            return self.check(token, now)
        except NotAuthenticated:
            return None

    def _signature(self, body: str) -> str:
        return _text(hmac.digest(self._key, body.encode(), "sha256"))


def read_tokens_of(section: HttpSection, *, group: str) -> ReadTokens:
    """Return the tokens of the settings; without a secret file, of this process alone.

    Raises:
        NotAvailable: the file cannot be read.
        SettingsError: its secret is too short.
    """
    if not section.token_secret_file:
        log.warning("http.token_secret_made")
        return ReadTokens(secrets.token_bytes(32), group=group)
    setting = "[http] token_secret_file"
    secret = SecretFile("http", setting, section.token_secret_file).read()
    if len(secret) < _LEAST_CHARACTERS:
        raise SettingsError(f"{setting}: its secret has less than {_LEAST_CHARACTERS} characters")
    return ReadTokens(secret.encode(), group=group)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
