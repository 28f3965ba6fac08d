"""Which retry topics there are: `<topic>.<group>.retry.<delay>`, of this group alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from consumer.handlers.declaration import Handler
from consumer.handlers.durations import named
from feedback.errors import SettingsError

LONGEST_NAME = 249


def retry_topic(topic: str, group: str, delay_ms: int) -> str:
    """Return the topic for a delay.

    >>> retry_topic("payments", "g", 5_000)
    'payments.g.retry.5s'
    """
    return f"{topic}.{group}.retry.{named(delay_ms)}"


def retry_topics(handlers: Iterable[Handler], group: str) -> Mapping[str, tuple[Handler, int]]:
    """Return the retry topics of these handlers, each with whose it is and its delay in ms.

    Raises:
        SettingsError: a name is longer than Kafka allows.
    """
    found: dict[str, tuple[Handler, int]] = {}
    for handler in handlers:
        if handler.retries is None:
            continue
        for delay_ms in handler.retries.topic_delays_ms:
            name = retry_topic(handler.topic, group, delay_ms)
            if len(name) > LONGEST_NAME:
                raise SettingsError(
                    f"the retry topic {name} has {len(name)} characters, and Kafka takes "
                    f"{LONGEST_NAME}: shorten [kafka] group or the topic"
                )
            found[name] = (handler, delay_ms)
    return found
