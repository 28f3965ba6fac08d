"""The key that a counterparty sees. Pure."""

from __future__ import annotations


def idempotency_key(group: str, request_id: str, voids: int) -> str:
    """Return `ow-` and 40 hex digits of the SHA-256 of the three, each followed by a NUL.

    That is 43 characters of ASCII (docs: Effects and doubt).

    Args:
        voids: how often a run of the request was declared void.
    """
    from hashlib import sha256  # OpenSSL: memory that a child may never need

    text = f"{group}\0{request_id}\0{voids}\0"
    return "ow-" + sha256(text.encode()).hexdigest()[:40]
