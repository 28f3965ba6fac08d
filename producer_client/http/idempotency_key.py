"""The header `Idempotency-Key`, as draft-ietf-httpapi-idempotency-key-header has it.

Its value is a string of RFC 9651: in quotes. Most clients send it bare; that is taken, with a
warning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST = 255
BARE = '299 - "Idempotency-Key is not quoted: send it as a string of RFC 9651"'

_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
# Parameters of the item mean nothing here, and are ignored as RFC 9651 asks for.
_PARAMETERS = re.compile(r'(; *[a-z*][a-z0-9_.*-]*(=("(?:[ !#-\[\]-~]|\\["\\])*"|[^",;\s]+))?)*')
_BARE = re.compile(r"[!#-+\--:<-~]+")


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's key.

    Attributes:
        warning: for the header `Warning`; empty for a quoted key.
    """

    key: str
    warning: str = ""


def read_idempotency_key(header: str) -> IdempotencyKey | None:
    r"""Return the key of a header, None for one that breaks the rules.

    >>> read_idempotency_key('"order-7"')
    IdempotencyKey(key='order-7', warning='')
    >>> read_idempotency_key('"a", "b"') is None
    True
    """
    text = header.strip(" ")
    if quoted := _QUOTED.match(text):
        key = re.sub(r"\\(.)", r"\1", quoted[1])
        is_valid = _PARAMETERS.fullmatch(text, quoted.end()) is not None
        return IdempotencyKey(key) if is_valid and 0 < len(key) <= MOST else None
    is_valid = _BARE.fullmatch(text) is not None and len(text) <= MOST
    return IdempotencyKey(text, BARE) if is_valid else None
