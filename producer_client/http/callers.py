"""A caller of the front door, its topics, and the interface of each way to recognise callers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from feedback.errors import ExitCode, NotAvailable, OncewardError


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of an HTTP request.

    Args:
        name: the owner of the requests submitted; the same name sees them again.
        may_submit: the topics; None for each topic that is offered.
        may_read: the topics whose requests it may follow; None for each.
    """

    name: str
    may_submit: frozenset[str] | None = None
    may_read: frozenset[str] | None = None

    def submits_to(self, topic: str) -> bool:
        """Return whether the caller may submit to a topic."""
        return self.may_submit is None or topic in self.may_submit

    def reads(self, topic: str) -> bool:
        """Return whether the caller may follow its requests of a topic."""
        return self.may_read is None or topic in self.may_read


# Everybody, where nothing tells callers apart: only a door on loopback may take it.
ANONYMOUS = Caller("")


class NotAuthenticated(OncewardError):
    """The caller is not known: it gave no credentials, or they are not valid.

    Args:
        reason: one line for the log, without a part of the credentials. The caller is told none.
        challenge: the value of `WWW-Authenticate` in the 401.
    """

    exit_code = ExitCode.USAGE
    entry = "error-notauthenticated"

    def __init__(self, reason: str, challenge: str = "Bearer") -> None:
        super().__init__(reason)
        self.reason = reason
        self.challenge = challenge


class SignersUnknown(NotAvailable):
    """The public keys that a token needs are not here, or too old: its caller may be a true one.

    Args:
        reason: one line for the log.
        fetched: done when they were asked for, with success or not.
    """

    def __init__(self, reason: str, fetched: Future[None]) -> None:
        super().__init__(reason)
        self.fetched = fetched


class Authentication(Protocol):
    """One way to recognise callers, or several."""

    def caller(self, headers: Mapping[str, str], address: str) -> Caller:
        """Return the caller of an HTTP request; it never waits for a network.

        Args:
            headers: by lower-case name. One that came several times has its values with a newline
                between them, which no value can hold.
            address: the IP address of the peer.

        Raises:
            NotAuthenticated: the answer is 401.
            NotAvailable: nobody can know now; the answer is 503. When `SignersUnknown.fetched` is
                done, a second call may know: see `recognise`.
        """


async def recognise(
    authentication: Authentication, headers: Mapping[str, str], address: str
) -> Caller:
    """Return the caller, as `Authentication.caller` does, after public keys were fetched."""
    try:
        return authentication.caller(headers, address)
    except SignersUnknown as unknown:
        await asyncio.wrap_future(unknown.fetched)
        return authentication.caller(headers, address)


# RFC 6750: so the rest of the room has ASCII without blanks. A token of an identity provider has 1
# to 4 kB.
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]{1,8192}={0,2})", re.IGNORECASE)


def bearer(headers: Mapping[str, str]) -> str:
    """Return the key or token of `Authorization: Bearer`.

    Raises:
        NotAuthenticated: there is none, there are two, or it is none by its form.
    """
    given = headers.get("authorization")
    if given is None:
        raise NotAuthenticated("no credentials")
    found = _BEARER.fullmatch(given.strip(" \t"))
    if found is None:
        raise invalid("Authorization is no bearer token")
    return found[1]


_INVALID = 'Bearer error="invalid_token"'


def invalid(reason: str) -> NotAuthenticated:
    """Return the refusal of credentials that were given."""
    return NotAuthenticated(reason, _INVALID)
