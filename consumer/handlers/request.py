"""The argument of a handler: the request, its payload, its idempotency key, and its effect."""

from __future__ import annotations

import json as jsonlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from consumer.handlers.declaration import EffectKind
from consumer.handlers.effect_gate import EffectGate

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from consumer.handlers.dead_letters.dead_letter import DeadLetter


def idempotency_key(group: str, request_id: str, voids: int) -> str:
    """Return `ow-` and 40 hex digits of the SHA-256 of the three, each followed by a NUL.

    That is 43 characters of ASCII (docs: Effects and doubt).

    Args:
        voids: how often a run of the request was declared void.
    """
    from hashlib import sha256  # OpenSSL: memory that a child may never need

    text = f"{group}\0{request_id}\0{voids}\0"
    return "ow-" + sha256(text.encode()).hexdigest()[:40]


RequestHeaders = tuple[tuple[str, bytes | None], ...]

_NOT_MARKED = {
    EffectKind.EXTERNAL: "the whole run is the effect already, and the claim has recorded it",
    EffectKind.TRANSACTIONAL: "its writes and the finish are one transaction, there is no doubt",
}


@dataclass(slots=True, eq=False, kw_only=True)
class Request:
    """One request in its handler. Its text never shows key, value or headers.

    Attributes:
        request_id: its name within the group.
        topic, partition, offset, timestamp: the record that brought it; epoch ms.
        key, value: the record's bytes, None is null. headers: as sent, in order.
        attempt: which sending this is, from 1. generation: which claim, from 1.
        deadline_at: epoch ms; a later run is not started.
        group: the consumer group. voids: how often a run was declared void.
        dead_letter: in a handler of dead letters, the failed request; None elsewhere.
    """

    request_id: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)
    headers: RequestHeaders = field(repr=False)
    attempt: int
    generation: int
    deadline_at: int
    group: str
    voids: int = 0
    effect_kind: EffectKind = EffectKind.EXTERNAL
    model: type | None = field(default=None, repr=False)
    gate: EffectGate | None = field(default=None, repr=False)
    journal_connection: Connection | None = field(default=None, repr=False)
    dead_letter: DeadLetter | None = None
    _payload: Any = field(default=None, init=False, repr=False)

    def json(self) -> Any:
        """Return the value decoded from JSON.

        Raises:
            ValueError: the value is null or no JSON.
        """
        if self.value is None:
            raise ValueError("the record's value is null: look at request.value before json()")
        return jsonlib.loads(self.value)

    @property
    def payload(self) -> Any:
        """The value as the handler's `model=`, made when first asked for.

        Raises:
            RuntimeError: the handler has no model.
            ValueError: the value does not fit it; the text names the fields, not their values.
        """
        if self.model is None:
            raise RuntimeError("request.payload needs @handler(model=...); without it use json()")
        if self._payload is None:
            self._payload = _validate(self.model, self.value)
        return self._payload

    @property
    def idempotency_key(self) -> str:
        """A key for the counterparty: the same for every run of this request until one is void.

        43 characters of ASCII; see `consumer.handlers`.
        """
        return idempotency_key(self.group, self.request_id, self.voids)

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context that the client sent, None without one."""
        for name, value in reversed(self.headers):
            if name == "traceparent" and value is not None:
                return value.decode("ascii", "replace")
        return None

    @property
    def connection(self) -> Connection:
        """The open transaction on the journal's database; the finish will commit it.

        Raises:
            RuntimeError: the handler is not transactional.
        """
        if self.journal_connection is None:
            raise RuntimeError('request.connection needs @handler(effect="transactional")')
        return self.journal_connection

    def effect(self) -> EffectGate:
        """Return the context that a marked handler enters, by `with` or `async with`.

        Entering commits in the journal that doubt begins, then returns. Entering again asks nobody.
        In a coroutine use `async with`: `with` holds the event loop until the journal answered.

        Raises:
            EffectRefused: on entering: the claim is no longer ours, and nothing may be called.
            RuntimeError: the handler is not marked, or its run has ended.
        """
        if self.gate is None:
            why = _NOT_MARKED.get(self.effect_kind, "it only asks, and does not act")
            raise RuntimeError(f'request.effect() needs @handler(effect="marked"): here {why}')
        return self.gate

    @classmethod
    def for_tests(
        cls,
        body: object = None,
        *,
        effect: EffectKind | Literal["external", "marked", "transactional"] = "marked",
        refuse_effect: bool = False,
        connection: Connection | None = None,
        **facts: Any,
    ) -> Request:
        """Return a request for a unit test of a handler; no worker, no journal.

        Args:
            body: becomes the JSON value, unless `value=` gives its bytes.
            effect: the handler's effect kind.
            refuse_effect: let `effect()` find that the claim is gone.
            connection: a transactional handler writes to it.
            facts: any other attribute of a request.

        >>> Request.for_tests({"amount": 5}, request_id="a").json()
        {'amount': 5}
        """
        known: dict[str, Any] = {"request_id": "test", "generation": 1, **facts}
        gate = EffectGate(
            known["request_id"], known["generation"], lambda answered: answered(not refuse_effect)
        )
        kind = EffectKind(effect)
        defaults: dict[str, Any] = {
            "topic": "test",
            "partition": 0,
            "offset": 0,
            "timestamp": 0,
            "key": None,
            "value": jsonlib.dumps(body).encode(),
            "headers": (),
            "attempt": 1,
            "deadline_at": 2**53,
            "group": "test",
            "effect_kind": kind,
            "gate": gate if kind is EffectKind.MARKED else None,
            "journal_connection": connection,
        }
        return cls(**{**defaults, **known})


def _validate(model: Any, value: bytes | None) -> Any:
    if value is None:
        raise ValueError(f"the record's value is null, not a {model.__name__}")
    try:
        return model.model_validate_json(value)
    except ValueError as error:
        # pydantic's own text quotes the input, which is payload.
        details = getattr(error, "errors", None)
        faults = details(include_url=False, include_input=False) if details else []
        told = "; ".join(f"{'.'.join(map(str, at['loc']))}: {at['type']}" for at in faults)
    raise ValueError(f"the value is not a {model.__name__}: {told or 'invalid'}")
