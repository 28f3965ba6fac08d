"""Settings, and an environment, that lead to the servers of this process."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from feedback.settings.settings import AlertsSection, RegistrySection, Settings
from onceward.testing.bench_outcome import NotCovered

# A database that does not answer is noticed so soon.
JOURNAL_TIMEOUT_S = 0.5


class Addresses(NamedTuple):
    """Where the servers are."""

    kafka: str
    redis: str
    journal: str
    outbox: str


def leading_to(there: Addresses, given: Settings, handlers: tuple[str, ...]) -> Settings:
    """Return settings for a worker at these servers, of one child, which tells nobody outside.

    Args:
        given: all else is as they say; without a journal or an outbox they stay without one.
        handlers: modules.
    """
    journal = given.journal
    if journal.url:
        journal = journal.model_copy(
            update={"url": there.journal, "timeout_s": min(journal.timeout_s, JOURNAL_TIMEOUT_S)}
        )
    outbox = given.outbox
    if outbox.url:
        outbox = outbox.model_copy(update={"url": there.outbox})
    worker = {"handlers": handlers, "processes": 1, "http_port": 0}
    return given.model_copy(
        update={
            "kafka": given.kafka.model_copy(update={"bootstrap_servers": there.kafka}),
            "redis": given.redis.model_copy(update={"url": there.redis, "password_file": None}),
            "journal": journal,
            "outbox": outbox,
            "registry": RegistrySection(),
            "worker": given.worker.model_copy(update=worker),
            "alerts": AlertsSection(),
        }
    )


def variables(there: Addresses) -> dict[str, str]:
    """Return the variables that lead there whatever a file says."""
    return {
        "ONCEWARD_KAFKA__BOOTSTRAP_SERVERS": there.kafka,
        "ONCEWARD_REDIS__URL": there.redis,
        "ONCEWARD_JOURNAL__URL": there.journal,
        "ONCEWARD_OUTBOX__URL": there.outbox,
    }


@contextmanager
def environment(given: Mapping[str, str]) -> Iterator[None]:
    """Have these variables in the block, and those of before behind it."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)  # the test may have removed it
            else:
                os.environ[name] = value


def handler_module(handler: str | Callable[..., Any]) -> str:
    """Return the module that a child has to import for a handler.

    Raises:
        NotCovered: a child cannot.

    >>> handler_module("shop.handlers")
    'shop.handlers'
    """
    if isinstance(handler, str):
        return handler
    module: str = inspect.unwrap(handler).__module__
    if "<locals>" in handler.__qualname__ or module == "__main__":
        raise NotCovered(
            f"{module}.{handler.__qualname__}: a child imports the handler, "
            "so declare it at the top of a module, not in a function"
        )
    return module
