"""The faults of security in redis-py's errors. Pure."""

from __future__ import annotations

import re

from redis.exceptions import AuthenticationError, ResponseError

from feedback.errors import SecurityFault, SecurityKind
from feedback.security import REDIS, causes, fault, of_tls

_ALLOW = (
    "allow this user the commands, the keys (~onceward:*) and the channels of onceward "
    "(&onceward:*)"
)
# A script whose user lacks a right may have written by then. Redis 6, Redis 7 and later.
_IN_SCRIPT = re.compile(
    r"The user executing the script can't|ACL failure in script|can't publish to the channel"
    r"|can't access at least one of the (?:keys|channels)"
)
_CHANNEL = re.compile(r"publish|channel")
# Redis names neither the command nor the key there.
_NAMED_BY_CHECK = ": `onceward-worker check --role ROLE` names the missing one"
_CHANNELS = "allow this user the channels as well (&onceward:*)"


def fault_of(
    error: BaseException, code: str, handled: BaseException | None = None
) -> SecurityFault | None:
    """Return the fault of security behind an error; None where there is none.

    Args:
        code: of the server's refusal, empty without one.
        handled: an error that was being handled when the call began.
    """
    for one in causes(error, handled):
        found: SecurityFault | None = getattr(one, "onceward_fault", None)
        if found is not None:
            return found
    if (kind := _of_login(error, code)) is not None:
        return fault(kind, REDIS, _line(error))
    if code == "NOPERM" or lacks_right_in_script(error):
        text = _line(error)
        more = _CHANNELS if _CHANNEL.search(text) else _ALLOW
        if "this command" in text:
            more += _NAMED_BY_CHECK
        return fault(SecurityKind.RIGHT, REDIS, text, more=more)
    return of_tls(error, REDIS, handled)


def lacks_right_in_script(error: BaseException) -> bool:
    """Whether a script ended in the middle: its user lacks a right that it needs."""
    return isinstance(error, ResponseError) and _IN_SCRIPT.search(str(error)) is not None


def _of_login(error: BaseException, code: str) -> SecurityKind | None:
    if "without any password configured" in str(error):
        return SecurityKind.NO_LOGIN
    if code == "NOAUTH":
        return SecurityKind.NEEDS_LOGIN
    is_refused = code == "WRONGPASS" or isinstance(error, AuthenticationError)
    return SecurityKind.PASSWORD if is_refused else None


def _line(error: BaseException) -> str:
    """Return the server's words, without the hash and the line of a script."""
    text = str(error).splitlines()[0] if str(error) else ""
    return text.partition(" script: ")[0].rstrip(".")
