"""Logs: an event name with fields, as text on a terminal and as JSON lines otherwise.

Payloads and secrets are never logged; what comes from outside (ids, error texts) is escaped, so
that a request cannot forge a line or move a terminal's cursor.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import Any, TextIO

_FIELDS = "onceward_fields"
_STACK = "onceward_stack"


class EventLog:
    """A logger that takes an event's name and its fields.

    >>> EventLog("onceward.example").info("request.claimed", request_id="a", generation=1)
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: object) -> None:
        """Log an event that only an investigation needs."""
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log a transition as it should be."""
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log what a person should look at when it repeats."""
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log what a person should look at."""
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log a fault of our own, with its stack."""
        self._logger.error(event, extra={_FIELDS: fields}, exc_info=True)

    def raised(self, event: str, error: BaseException, **fields: object) -> None:
        """Log what a user's code raised: its class and stack, never its text.

        An exception's text quotes what it was about, as `int(card_number)` does; the client that
        owns the payload reads it in the status.
        """
        extra = {_FIELDS: fields | {"error": type(error).__name__}, _STACK: _places(error)}
        self._logger.error(event, extra=extra)

    def _log(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={_FIELDS: fields})


class TextFormat(logging.Formatter):
    """One line for a person: time, level, event, fields; a stack is indented below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; control characters are escaped."""
        moment = time.strftime("%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, Any] = getattr(record, _FIELDS, {})
        words = [f"{moment}.{int(record.msecs):03d}", f"{record.levelname:7}", record.getMessage()]
        words += [f"{name}={_plain(value)}" for name, value in fields.items()]
        line = _one_line(" ".join(words))
        stack = _stack(self, record)
        if stack:
            # Indented, so that an error's text cannot pass for a line of the log.
            line = "\n    ".join([line, *map(_one_line, stack.splitlines())])
        return line


class JsonFormat(logging.Formatter):
    """One JSON object a line, for a collector."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; times are UTC."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        stack = _stack(self, record)
        if stack:
            line["stack"] = stack
        return json.dumps(line, default=str)


def configure(*, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logs to `stream` (stderr): text when it is a terminal, JSON lines otherwise."""
    stream = stream or sys.stderr
    target = logging.StreamHandler(stream)
    target.setFormatter(TextFormat() if stream.isatty() else JsonFormat())
    root = logging.getLogger()
    root.handlers[:] = [target]
    root.setLevel(level)
    # kafka-python tells every connection at INFO, and of an outage 35 errors a second with their
    # stacks: what they mean we log ourselves, once. At DEBUG it would log keys and values.
    logging.getLogger("kafka").setLevel(logging.INFO if level == "DEBUG" else logging.CRITICAL)


def _stack(format_of: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_info:
        return format_of.formatException(record.exc_info)
    return str(getattr(record, _STACK, ""))


def _places(error: BaseException) -> str:
    """Return the classes and stacks of an error and its causes, the first cause first."""
    parts: list[str] = []
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        parts.append("".join(traceback.format_tb(one.__traceback__)) + type(one).__name__)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "\nthen:\n".join(reversed(parts))


def _plain(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or " " in text else text


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
