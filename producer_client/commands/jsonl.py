"""Reads JSONL as submissions, for `onceward-client send --file`."""

from __future__ import annotations

import base64
import json
import os
import select
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import IO, Any

from feedback.errors import SettingsError
from producer_client.commands.audited import Audited, audited_of
from producer_client.submission import Submission

# A line waits so long at most for others to be sent with it.
PAUSE_S = 0.05
CHUNK_BYTES = 65_536
_NO_NUMBER = "a number that JSON cannot hold"
_NAMES = frozenset(
    {"value", "value_base64", "key", "request_id", "topic", "deadline_s", "headers", "audit"}
)


class BadLine(SettingsError):
    """A line of the input is not a request; those before it were sent."""


def lines_and_pauses(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Yield the lines of a stream as they come, and None when no line came for a moment.

    The writer of the stream may be slow: None says not to wait for the next line.
    """
    try:
        descriptor = stream.fileno()
    except OSError:
        # Bytes in memory: they never pause.
        yield from stream
        return
    rest = b""
    is_new = False
    while True:
        ready, _, _ = select.select([descriptor], [], [], PAUSE_S if is_new else None)
        if not ready:
            is_new = False
            yield None
            continue
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        is_new = is_new or bool(lines)
        yield from lines
    if rest:
        yield rest


def read_submissions(
    lines: Iterable[bytes | None],
    *,
    topic: str | None = None,
    key: str | None = None,
    deadline_s: float | None = None,
    check: Callable[[Audited, str], None] | None = None,
) -> Iterator[Submission | None]:
    """Yield a submission for each line that is not empty, and None for each pause.

    Args:
        topic, key, deadline_s: for lines that have none.
        check: called with each line of an audit; raises when it may not be sent.

    Raises:
        BadLine: the line's number and its fault, without its content.
        NotAvailable: the server that `check` asks is away.
    """
    number = 0
    for line in lines:
        if line is None:
            yield None
            continue
        number += 1
        if not line.strip():
            continue
        try:
            found = parse(line)
            one = _submission(found, topic=topic, key=key, deadline_s=deadline_s)
            if check is not None and (audited := _audited(found)) is not None:
                check(audited, one.topic or "")
            yield replace(one, line=number)
        except SettingsError as error:
            raise BadLine(f"line {number}: {error}") from error
        except ValueError as error:
            raise BadLine(f"line {number}: {error}") from None


def parse(text: bytes | str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: its fault and position, without its content.

    >>> parse('{"amount": 5')
    Traceback (most recent call last):
    ValueError: Expecting ',' delimiter (character 13)
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} (character {error.pos + 1})") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse(constant: str) -> object:
    raise ValueError(_NO_NUMBER)  # NaN and Infinity are Python's, not JSON's


def _submission(
    found: Any, *, topic: str | None, key: str | None, deadline_s: float | None
) -> Submission:
    if not (isinstance(found, dict) and ({"value", "value_base64"} & found.keys())):
        return Submission(_encoded(found), key, topic, deadline_s=deadline_s)
    if found.keys() - _NAMES:
        # The names themselves may be the content of a line that was meant as the value.
        raise ValueError(f"names beside {', '.join(sorted(_NAMES))}")
    own_key = _text(found, "key")
    return Submission(
        _value(found),
        key if own_key is None else own_key,
        _text(found, "topic") or topic,
        _text(found, "request_id"),
        _headers(found.get("headers", {})),
        deadline_s if found.get("deadline_s") is None else _number(found, "deadline_s"),
    )


def _audited(found: Any) -> Audited | None:
    is_request = isinstance(found, dict) and bool({"value", "value_base64"} & found.keys())
    return audited_of(found["audit"]) if is_request and "audit" in found else None


def _value(found: dict[str, Any]) -> bytes | None:
    if "value_base64" not in found:
        return None if found["value"] is None else _encoded(found["value"])
    if "value" in found:
        raise ValueError("value and value_base64 exclude each other")
    text = _text(found, "value_base64")
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("value_base64 is not base64") from None


def _encoded(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        raise ValueError(_NO_NUMBER) from None


def _headers(found: Any) -> tuple[tuple[str, bytes], ...]:
    # An object for most, a list of pairs where a name repeats.
    pairs = list(found.items()) if isinstance(found, dict) else found
    try:
        return tuple((_is_text(name), _is_text(text).encode()) for name, text in pairs)
    except (TypeError, ValueError):
        raise ValueError("headers must be an object or pairs of text") from None


def _is_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(found: dict[str, Any], name: str) -> float:
    value = found[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large") from None


def _text(found: dict[str, Any], name: str) -> str | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} must be text")
    return value
