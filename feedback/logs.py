"""Logs: an event name with fields, as text on a terminal and as JSON lines otherwise.

Payloads and secrets are never logged. Ids and error texts from outside are escaped, so that a
request cannot forge a line or move a terminal's cursor.

An application with its own formatter finds the fields in the message: `event name=value`.
A line that is logged within `context` carries its fields, and those that `extra=` gave it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TextIO

from feedback.foreign import class_name

# Read past the user's own classes, which may have properties of these names.
_LINKS: tuple[Any, ...] = tuple(
    BaseException.__dict__[name].__get__
    for name in ("__traceback__", "__cause__", "__suppress_context__", "__context__")
)
# The most detailed first.
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_EVENT = "onceward_event"
_FIELDS = "onceward_fields"
_STACK = "onceward_stack"
# All else that a record has, `extra=` has given it.
_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", _EVENT, _FIELDS, _STACK}
_NO_FIELDS: Mapping[str, object] = MappingProxyType({})
_CONTEXT: ContextVar[Mapping[str, object]] = ContextVar("onceward_log_context", default=_NO_FIELDS)


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
        """Log a normal transition."""
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log an event that a person should look at when it repeats."""
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log an event that a person should look at."""
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, fault: BaseException | None = None, **fields: object) -> None:
        """Log a fault of our own, with its stack; by default the one that is handled here."""
        self._emit(logging.ERROR, event, fields, fault=fault or sys.exception())

    def raised(self, event: str, error: BaseException, **fields: object) -> None:
        """Log an exception of the user's code: its class and stack, never its text.

        An exception's text may quote the payload, as that of `int(card_number)` does. The client
        that owns the payload reads the text in the status.
        """
        fields = fields | {"error": class_name(error)}
        self._emit(logging.ERROR, event, fields, stack=_stacks_of(error))

    def _log(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._emit(level, event, fields)

    def _emit(
        self,
        level: int,
        event: str,
        fields: dict[str, object],
        *,
        fault: BaseException | None = None,
        stack: str = "",
    ) -> None:
        extra = {_EVENT: event, _FIELDS: fields, _STACK: stack}
        # One template for each event, so that an application can group by it.
        template, arguments = (f"{event} %s", (_Words(fields),)) if fields else (event, ())
        logger = self._logger
        handled = None if fault is None else (type(fault), fault, fault.__traceback__)
        # `Logger.log` would look for its caller, which is this line, for a sixth of the time.
        record = logger.makeRecord(
            logger.name, level, __file__, 0, template, arguments, handled, extra=extra
        )
        logger.handle(record)


class _Words:
    """Fields as words of a message, joined only when a formatter needs them."""

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return _one_line(_words(self._fields))


@contextmanager
def context(**fields: object) -> Iterator[None]:
    """Add fields to each line that is logged in the block, by this thread or asyncio task."""
    token = _CONTEXT.set(fields)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a line: of the context, of `extra=`, and of our own event.

    >>> with context(request_id="a", topic="payments"):
    ...     fields_of(logging.makeLogRecord({"msg": "charged", "amount": 5}))
    {'request_id': 'a', 'topic': 'payments', 'amount': 5}
    """
    given = {name: value for name, value in vars(record).items() if name not in _OWN}
    return {**_CONTEXT.get(), **given, **getattr(record, _FIELDS, {})}


def event_of(record: logging.LogRecord) -> str:
    """Return the name of our event, or the message that another logger formatted."""
    return str(getattr(record, _EVENT, "")) or record.getMessage()


class TextFormat(logging.Formatter):
    """One line for a person: time, level, event, fields; a stack is indented below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; control characters are escaped."""
        moment = time.strftime("%H:%M:%S", time.gmtime(record.created))
        fields = fields_of(record)
        words = [f"{moment}.{int(record.msecs):03d}", f"{record.levelname:7}", event_of(record)]
        line = _one_line(" ".join([*words, _words(fields)] if fields else words))
        stack = _stack(self, record)
        if stack:
            # Indented, so that an error's text cannot pass for a line of the log.
            line = "\n    ".join([line, *map(_one_line, stack.splitlines())])
        return line


# `json.dumps` makes an encoder for each call that has a `default`.
_as_json = json.JSONEncoder(default=str).encode


@lru_cache(1)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class JsonFormat(logging.Formatter):
    """One JSON object a line, for a collector."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; times are UTC."""
        moment = _second(int(record.created))
        line: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": event_of(record),
        }
        # A field of a user's `extra=` does not stand in for one of these.
        line |= {name: value for name, value in fields_of(record).items() if name not in line}
        stack = _stack(self, record)
        if stack:
            line["stack"] = stack
        return _as_json(line)


class _Target(logging.StreamHandler[TextIO]):
    """A stream of lines; a line that cannot be written changes nothing for the code that logs."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Print the fault on stderr, without its text.

        The class above prints the text of each error behind it. One may be a handler's, which may
        quote a payload, or raise another one in the middle of the run that logs it.
        """
        error = sys.exc_info()[1]
        if logging.raiseExceptions and error is not None and sys.stderr is not None:
            place = _one_line(f"{record.name}, {record.pathname}:{record.lineno}")
            line = f"cannot log a line of {place}:\n{_stacks_of(error)}\n"
            # Full, closed, or a pipe that nobody reads: there is nobody left to tell.
            with suppress(OSError, ValueError):
                sys.stderr.write(line)


def configure(*, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logs to `stream` (stderr): text when it is a terminal, JSON lines otherwise."""
    stream = stream or sys.stderr
    target = _Target(stream)
    target.setFormatter(TextFormat() if stream.isatty() else JsonFormat())
    root = logging.getLogger()
    root.handlers[:] = [target]
    set_level(level)


def level() -> str:
    """Return the level of all logs; of an application's own levels, INFO."""
    name = logging.getLevelName(logging.getLogger().level)
    return name if name in LEVELS else "INFO"


def set_level(level: str) -> None:
    """Set the level of all logs, one of `LEVELS`."""
    logging.getLogger().setLevel(level)
    # kafka-python logs every connection at INFO, and 35 errors a second with stacks in an outage.
    # We log the outage ourselves, once. At DEBUG it would log keys and values.
    logging.getLogger("kafka").setLevel(logging.INFO if level == "DEBUG" else logging.CRITICAL)


def _stack(format_of: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_info:
        return format_of.formatException(record.exc_info)
    return str(getattr(record, _STACK, ""))


def _stacks_of(error: BaseException) -> str:
    """Return the classes and stacks of an error and its causes, the first cause first."""
    parts: list[str] = []
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        tb, cause, is_alone, context = (get(one) for get in _LINKS)
        parts.append("".join(traceback.format_tb(tb)) + class_name(one))
        one = cause if cause is not None or is_alone else context
    return "\nthen:\n".join(reversed(parts))


def _words(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={_plain(value)}" for name, value in fields.items())


def _plain(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or " " in text else text


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
