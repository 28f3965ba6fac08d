"""The declaration of a handler of dead letters, and its topic in a group. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from consumer.handlers.backoff import Exponential
from consumer.handlers.declaration import Handler, OnError
from feedback.errors import SettingsError
from feedback.records.dead_letter_topics import dead_letter_topic, is_dead_letter_topic

# 1 s, 4 s, 16 s, 64 s, 256 s, 10 min: each has a topic, and more topics would be no better.
_STEPS = Exponential("1s", tries=6, factor=4.0, most="10m")


@dataclass(frozen=True)
class Endless:
    """Each delay is four times the one before, up to ten minutes, as often as it takes."""

    tries: int = 2**53
    topic_delays_ms: tuple[int, ...] = _STEPS.topic_delays_ms

    def delay_ms(self, retry: int, random: Random) -> int:
        """Return the milliseconds before this retry, counted from 1."""
        return _STEPS.delay_ms(min(retry, _STEPS.tries), random)


ENDLESS = Endless()


LONGEST_NAME = 249
# Without end, to a person: a row is only pruned when its deadline is over.
ENDLESS_S = 365 * 86_400.0


def placeholder(dead_letters_of: object) -> str:
    """Return the placeholder of the topic until the group is known; no topic has such a name."""
    return f"dead letters of {dead_letters_of}"


def fault_of_letters(handler: Handler) -> str | None:
    """Return a sentence that names the fault and its correction; None when there is none."""
    if handler.dead_letters_of is None:
        if handler.on_error is None:
            return None
        return "on_error= is for dead letters: give dead_letters_of= instead of topic="
    for name in ("model", "schema"):
        if getattr(handler, name) is not None:
            return (
                f"{name}= would refuse the letters of values that were refused before: "
                "leave it out and look at request.dead_letter"
            )
    own = ("retry_on", "never_retry", "retries", "blocking")
    given = [f"{name}=" for name in own if getattr(handler, name)]
    if handler.on_error is OnError.RETRY and given:
        return f'on_error="retry" runs every error again by itself: leave out {", ".join(given)}'
    return None


def in_group(handler: Handler, group: str) -> Handler:
    """Return the handler with the topic that it has in this group, where it is one of letters.

    Raises:
        SettingsError: there is no such topic, or its name is longer than Kafka allows.
    """
    source = handler.dead_letters_of
    if source is None:
        return handler
    if is_dead_letter_topic(source, group):
        raise SettingsError(
            f"handler {handler.name}: dead_letters_of={source!r} is a dead letter topic of group "
            f"{group}, and there are no dead letters of dead letters: name the topic itself"
        )
    topic = dead_letter_topic(source, group)
    if len(topic) > LONGEST_NAME:
        raise SettingsError(
            f"the dead letter topic {topic} has {len(topic)} characters, and Kafka takes "
            f"{LONGEST_NAME}: shorten [kafka] group or the topic"
        )
    if handler.on_error is not OnError.RETRY:
        return replace(handler, topic=topic)
    deadline_s = ENDLESS_S if handler.deadline_s is None else handler.deadline_s
    return replace(handler, topic=topic, retries=ENDLESS, deadline_s=deadline_s)
