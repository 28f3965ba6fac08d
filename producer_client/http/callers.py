"""A caller of the front door, the topics it may use, and the interface of what recognises it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from feedback.errors import ExitCode, NotAvailable, OncewardError


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent an HTTP request.

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
        fetch: gets them; it blocks for seconds at most, raises nothing, and several may call it.
    """

    def __init__(self, reason: str, fetch: Callable[[], None]) -> None:
        super().__init__(reason)
        self.fetch = fetch


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
            NotAvailable: nobody can know now; the answer is 503. After the `fetch` of
                `SignersUnknown` a second call may know: see `recognise`.
        """


async def recognise(
    authentication: Authentication, headers: Mapping[str, str], address: str
) -> Caller:
    """Return the caller, as `Authentication.caller` does, after public keys were fetched."""
    try:
        return authentication.caller(headers, address)
    except SignersUnknown as unknown:
        await asyncio.to_thread(unknown.fetch)
        return authentication.caller(headers, address)
