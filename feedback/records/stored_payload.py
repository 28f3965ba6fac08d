"""The payload stored in Redis, so that a resend needs no sender (docs: Redis keys)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from feedback.records.envelope import NULL_HEADER, NullHeader


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """A request as its sender submitted it, without our headers.

    Stored as one line of JSON (topic, lengths, headers in hex) and then the raw key and value, so
    that a large payload takes hardly more room in Redis than its own bytes.
    """

    topic: str
    # repr=False: a log line with this object shows no payload.
    key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)
    headers: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)

    @property
    def size_bytes(self) -> int:
        """The length of its stored form, approximately."""
        headers = sum(len(name) + 2 * len(value) for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers

    def encode(self) -> bytes:
        """Return the stored form."""
        head = {
            "topic": self.topic,
            "key": None if self.key is None else len(self.key),
            "value": None if self.value is None else len(self.value),
            "headers": [
                [name, None if isinstance(value, NullHeader) else value.hex()]
                for name, value in self.headers
            ],
        }
        line = json.dumps(head, separators=(",", ":")).encode()
        return line + b"\n" + (self.key or b"") + (self.value or b"")

    @classmethod
    def decode(cls, raw: bytes) -> StoredPayload:
        """Return the payload from its stored form.

        Raises:
            ValueError: it was not written by `encode`.
        """
        line, _, body = raw.partition(b"\n")
        try:
            head = json.loads(line)
            key_size, value_size = _size(head["key"]), _size(head["value"])
            cut = key_size or 0
            whole = len(body) == cut + (value_size or 0)
            headers = tuple(
                (_text(name), NULL_HEADER if value is None else bytes.fromhex(value))
                for name, value in head["headers"]
            )
            topic = _text(head["topic"])
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"a stored payload lacks a field: {error}") from error
        if not whole:
            raise ValueError("a stored payload is shorter or longer than its header says")
        return cls(
            topic=topic,
            key=None if key_size is None else body[:cut],
            value=None if value_size is None else body[cut:],
            headers=headers,
        )

    @classmethod
    def read(cls, raw: bytes | None) -> StoredPayload | None:
        """Return the payload that Redis has; None where it has none, or one by no client of ours.

        Args:
            raw: the value of its key; None where there is none. Anybody may have written it.
        """
        try:
            return None if raw is None else cls.decode(raw)
        except ValueError:
            return None


def _size(value: object) -> int | None:
    """Return a length that `encode` can have written."""
    if value is not None and (type(value) is not int or value < 0):
        raise ValueError("a stored payload has a length that is none")
    return value


def _text(value: object) -> str:
    """Return a text that Kafka takes; one with lone surrogates raises a ValueError."""
    if not isinstance(value, str):
        raise ValueError("a stored payload has a name that is no text")
    value.encode()
    return value
