"""The options that choose letters, shared by several commands of `onceward-dlq`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import click

from consumer.dlq.filter import Filter
from consumer.dlq.moments import moment_ms
from consumer.dlq.standing import Standing
from feedback.clock import epoch_ms
from feedback.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Given:
    """The values of the options that choose letters.

    Attributes:
        filter: which letters are meant.
        topics: read the dead letter topics of these; by default of all the group's topics.
        dlqs: read dead letter topics by their own names instead.
    """

    filter: Filter
    topics: frozenset[str]
    dlqs: frozenset[str]


Command = TypeVar("Command", bound=Callable[..., Any])

_NAMES = (
    *("ids", "reasons", "codes", "classes", "topics", "dlqs"),
    *("since", "until", "text", "key", "standings"),
)


def _options(reason: str) -> Sequence[Callable[..., Any]]:
    return (
        click.option("--id", "ids", multiple=True, help="Of this request; repeatable."),
        click.option(
            reason,
            "reasons",
            multiple=True,
            help="With this reason, as `list` counts it; repeatable.",
        ),
        click.option("--code", "codes", multiple=True, help="FAILED with this code; repeatable."),
        click.option(
            "--class",
            "classes",
            multiple=True,
            help="Of this exception class, whole or its last part; repeatable.",
        ),
        click.option("--topic", "topics", multiple=True, help="Of this topic; repeatable."),
        click.option(
            "--dlq",
            "dlqs",
            multiple=True,
            help="Read this dead letter topic, of any writer: Kafka Connect, Streams, share "
            "groups, Spring, SmallRye, Karafka; repeatable.",
        ),
        click.option("--since", help="Failed since: 15m, 2h, 7d, or ISO 8601 with its zone."),
        click.option("--until", help="Failed before: likewise."),
        click.option("--contains", "text", help="With this text in the exception's message."),
        click.option("--key", help="With this key."),
        click.option(
            "--state",
            "standings",
            multiple=True,
            type=click.Choice([one.value for one in Standing]),
            help="In this state now; repeatable.",
        ),
    )


def filter_options(command: Command) -> Command:
    """Add the options that choose letters; the command gets them as `given`."""
    return filter_options_as()(command)


def filter_options_as(*, reason: str = "--reason") -> Callable[[Command], Command]:
    """Return `filter_options` for a command that needs one of its names itself.

    Args:
        reason: the name of the option for the letters' reasons.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_given(*arguments: Any, **options: Any) -> Any:
            chosen = {name: options.pop(name) for name in _NAMES}
            return command(*arguments, given=_given(**chosen), **options)

        decorated: Any = with_given
        for option in reversed(_options(reason)):
            decorated = option(decorated)
        return cast(Command, decorated)

    return decorate


def _given(
    *,
    ids: tuple[str, ...],
    reasons: tuple[str, ...],
    codes: tuple[str, ...],
    classes: tuple[str, ...],
    topics: tuple[str, ...],
    dlqs: tuple[str, ...],
    since: str | None,
    until: str | None,
    text: str | None,
    key: str | None,
    standings: tuple[str, ...],
) -> Given:
    now_ms = epoch_ms()
    since_ms = None if since is None else moment_ms("since", since, now_ms=now_ms)
    until_ms = None if until is None else moment_ms("until", until, now_ms=now_ms)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise SettingsError("--since must be before --until")
    chosen = Filter(
        ids=frozenset(ids),
        reasons=frozenset(reasons),
        codes=frozenset(codes),
        classes=frozenset(classes),
        topics=frozenset(topics),
        since_ms=since_ms,
        until_ms=until_ms,
        text=text,
        key=key,
        standings=frozenset(Standing(one) for one in standings),
    )
    # The dead letter topic of another system may have failures of many topics.
    return Given(chosen, topics=frozenset() if dlqs else chosen.topics, dlqs=frozenset(dlqs))
