"""The handlers of a worker, and how their modules are imported.

Read in every child, so nothing heavy is imported here.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from consumer.handlers.checks.handler_check import check
from consumer.handlers.dead_letters.declaring import in_group
from consumer.handlers.declaration import Handler, HandlerDefinitionError
from feedback.errors import SettingsError
from feedback.records.schema_faults import SchemaError


class HandlerImportError(SettingsError):
    """A module of handlers could not be used.

    Args:
        module: its dotted name.
        cause: one line: the class and text of its error, or the name that it lacks.
    """

    entry = "check-handlers"

    def __init__(self, module: str, cause: str) -> None:
        super().__init__(module, cause)
        self.module = module
        self.cause = cause

    def __str__(self) -> str:
        return f"cannot use handlers from {self.module!r}: {self.cause}"


class HandlerRegistry:
    """The handlers of a worker, one for each topic."""

    def __init__(self) -> None:
        self._by_topic: dict[str, Handler] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that have a handler, in order."""
        return tuple(sorted(self._by_topic))

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """All handlers, in the order of their topics."""
        return tuple(self._by_topic[topic] for topic in self.topics)

    def for_topic(self, topic: str) -> Handler | None:
        """Return the topic's handler, None when it has none."""
        return self._by_topic.get(topic)

    def add(self, handler: Handler) -> None:
        """Take the handler in; the same definition read again replaces its first reading.

        Raises:
            HandlerDefinitionError: it cannot be kept, or its topic has another handler.
        """
        check(handler)
        known = self._by_topic.get(handler.topic)
        if known is not None and not _same_definition(known, handler):
            raise HandlerDefinitionError(handler.name, _taken(known))
        self._by_topic[handler.topic] = handler

    def keep_only(self, handler: Handler) -> None:
        """Forget all handlers but this one."""
        self._by_topic = {handler.topic: handler}

    def in_group(self, group: str) -> HandlerRegistry:
        """Return the handlers with the topics that they have in this group.

        Raises:
            SettingsError: one of them cannot have its topic.
        """
        found = HandlerRegistry()
        for known in map(partial(in_group, group=group), self.handlers):
            other = found._by_topic.setdefault(known.topic, known)
            if other is not known:
                raise HandlerDefinitionError(known.name, _taken(other))
        return found

    def load_schemas(self) -> None:
        """Read the schema files; only who validates needs them, children do not.

        Raises:
            HandlerDefinitionError: one cannot be read or is no schema.
        """
        for known in self.handlers:
            if known.schema is not None:
                try:
                    known.schema.load()
                except SchemaError as error:
                    raise HandlerDefinitionError(known.name, str(error)) from error

    @classmethod
    def load(cls, modules: Sequence[str], *, group: str | None = None) -> HandlerRegistry:
        """Import the modules and return the handlers that they declare, or import from elsewhere.

        The current folder is importable, as with other workers.

        Args:
            modules: dotted names.
            group: the consumer group; without it handlers of dead letters have no topic yet.

        Raises:
            HandlerImportError: a module cannot be imported, or there is no handler in any.
            SettingsError: a handler cannot have its topic in this group.
        """
        folder = str(Path.cwd())
        if folder not in sys.path:
            sys.path.insert(0, folder)
        registry = cls()
        for module in modules:
            for found in _import(module):
                registry.add(found)
        if not registry.topics:
            named = ", ".join(modules) or "worker.handlers"
            raise HandlerImportError(named, "no function there has @handler(topic=...)")
        return registry if group is None else registry.in_group(group)


# The declarations of the imported modules.
DECLARED = HandlerRegistry()
# The topics that each module brought when first imported: a second load cannot see that again.
_brought: dict[str, set[str]] = {}


def _import(module: str) -> list[Handler]:
    before = set(DECLARED.handlers)
    try:
        home = importlib.import_module(module).__name__
    except (Exception, SystemExit) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise HandlerImportError(module, cause[:500]) from error
    topics = _brought.setdefault(module, set())
    topics.update(h.topic for h in DECLARED.handlers if h not in before or _lives_in(h, home))
    return [known for known in DECLARED.handlers if known.topic in topics]


def _lives_in(known: Handler, module: str) -> bool:
    home = str(known.function.__module__)
    return home == module or home.startswith(module + ".")


def _same_definition(known: Handler, new: Handler) -> bool:
    """Tell a module that is imported again from two functions that want one topic."""
    if known.name != new.name:
        return False
    namespaces = [getattr(each.function, "__globals__", None) for each in (known, new)]
    return known.function is new.function or namespaces[0] is not namespaces[1]


def _taken(known: Handler) -> str:
    return f"topic {known.topic!r} already has {known.name}: a topic has one handler"
