"""The id of a request that came through the front door: its caller's hash, then its key's.

So ownership is in the id. Two callers may use the same key, and the right to read is decided
without a store.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

_OWNER = 24
_KEY = 40


def request_id_of(caller: str, key: str) -> str:
    """Return the request's id; the same for the same caller and key, for ever.

    Args:
        caller: the name of the caller.
        key: the idempotency key.
    """
    # The length goes in as well: no two pairs are the same text.
    digest = sha256(f"{len(caller)}:{caller}{key}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_owner(caller)}-{digest[:_KEY]}"


def is_of(caller: str, request_id: str) -> bool:
    """Whether a request was submitted by this caller."""
    owner, dash, rest = request_id.partition("-")
    return owner == _owner(caller) and dash == "-" and len(rest) == _KEY


@lru_cache(1024)
def _owner(caller: str) -> str:
    return sha256(caller.encode("utf-8", "surrogatepass")).hexdigest()[:_OWNER]
