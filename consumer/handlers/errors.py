"""The errors that a handler may raise, and those of its marked effect. Imported in every child."""

from __future__ import annotations

import re

CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class Rejected(Exception):
    """Raised by a handler: the request is refused for good, nothing was done.

    Args:
        code: the handler's own stable code, `[A-Z][A-Z0-9_]{0,63}`.
        message: one sentence for the client, without the payload.

    Raises:
        ValueError: the code is not of that form.
    """

    def __init__(self, code: str, message: str = "") -> None:
        if not CODE.fullmatch(code):
            raise ValueError(f"a code is upper case like CARD_EXPIRED, not {code[:64]!r}")
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class InDoubt(Exception):
    """Raised by a handler: the counterparty may have acted, and the handler cannot know.

    Args:
        message: one sentence for the person who will decide, without the payload.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class EffectRefused(Exception):
    """Raised by `request.effect()`: the claim is no longer ours, so nothing may be called.

    However the handler ends after this, the run's outcome no longer counts and is not written:
    the request belongs to a newer claim or already has its outcome.

    Args:
        request_id: the request.
        generation: the claim that was lost.
    """

    def __init__(self, request_id: str, generation: int) -> None:
        super().__init__(request_id, generation)
        self.request_id = request_id
        self.generation = generation

    def __str__(self) -> str:
        return f"claim {self.generation} of request {self.request_id} is no longer ours"


for _named in (Rejected, InDoubt, EffectRefused):
    # Dead letters name the class of an exception, and their readers filter by it: it stays.
    _named.__module__ = __name__.rpartition(".")[0]
