"""Options that several commands of `onceward-dlq` share, and their questions to a person."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from types import FrameType
from typing import Any, TypeVar, cast

import click

from consumer.dlq.dates import date_range_of
from consumer.dlq.filter import LetterFilter
from consumer.dlq.letter_state import LetterState
from feedback.clock import epoch_ms
from feedback.console.commands import user_name
from feedback.console.printable import printable
from feedback.errors import ExitCode, OncewardError
from feedback.records.envelope import check_request_id

# The help of options; the console says the same.
UNKNOWN_WORDS = (
    "Also letters without a journal row, as of other systems. Nothing says whether such a request "
    "has run."
)
AGAIN_WORDS = "Of letters without a journal row, also those that were sent back before."
DISCARD_AGAIN_WORDS = "Also letters without a journal row that were sent back already, and may run."


@dataclass(frozen=True, slots=True)
class LetterOptions:
    """The values of the options that choose letters.

    Attributes:
        topics: read the dead letter topics of these; by default of all the group's topics.
        dlqs: read dead letter topics by their own names instead.
    """

    filter: LetterFilter
    topics: frozenset[str]
    dlqs: frozenset[str]

    @property
    def is_one_id(self) -> bool:
        """Whether they choose a single request, by its id alone."""
        ids = self.filter.ids
        return len(ids) == 1 and not self.dlqs and self.filter == LetterFilter(ids=ids)

    def words(self) -> str:
        """Return them as a person reads them."""
        dlqs = f"; in {' and '.join(sorted(self.dlqs))}" if self.dlqs else ""
        return printable(self.filter.words() + dlqs)


CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_NAMES = (
    *("ids", "reasons", "codes", "classes", "messages", "topics", "dlqs"),
    *("since", "until", "text", "key", "states"),
)


_OPTIONS: Sequence[Callable[..., Any]] = (
    click.option("--id", "ids", multiple=True, help="Of this request; repeatable."),
    click.option(
        "--reason",
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
    click.option(
        "--message",
        "messages",
        multiple=True,
        help="With this message, as `list` counts it: # for ids and numbers; repeatable.",
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
        "states",
        multiple=True,
        type=click.Choice([one.value for one in LetterState]),
        help="In this state now; repeatable.",
    ),
)


def filter_options(command: CommandT) -> CommandT:
    """Add the options that choose letters; the command gets them as `given`."""

    @wraps(command)
    def with_given(*arguments: Any, **options: Any) -> Any:
        chosen = {name: options.pop(name) for name in _NAMES}
        return command(*arguments, given=given_of(**chosen), **options)

    decorated: Any = with_given
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return cast(CommandT, decorated)


def choosing_options(command: CommandT) -> CommandT:
    """Add the options of a command that acts: a filter, ids as arguments, or `--all`."""
    help = "All letters, where no filter is given."
    for option in (
        click.option("--all", "everything", is_flag=True, help=help),
        click.argument("request_ids", nargs=-1),
    ):
        command = option(command)
    return filter_options(command)


def given_of(
    *,
    ids: Iterable[str] = (),
    reasons: Iterable[str] = (),
    codes: Iterable[str] = (),
    classes: Iterable[str] = (),
    messages: Iterable[str] = (),
    topics: Iterable[str] = (),
    dlqs: Iterable[str] = (),
    since: str | None = None,
    until: str | None = None,
    text: str | None = None,
    key: str | None = None,
    states: Iterable[str] = (),
) -> LetterOptions:
    """Return the values of options as they choose letters; times are counted from now.

    Raises:
        SettingsError: a time is none, or they exclude each other.
    """
    since_ms, until_ms = date_range_of(since, until, now_ms=epoch_ms())
    chosen = LetterFilter(
        ids=frozenset(ids),
        reasons=frozenset(reasons),
        codes=frozenset(codes),
        classes=frozenset(classes),
        messages=frozenset(messages),
        topics=frozenset(topics),
        since_ms=since_ms,
        until_ms=until_ms,
        text=text,
        key=key,
        states=frozenset(LetterState(one) for one in states),
    )
    # The dead letter topic of another system may have failures of many topics.
    return LetterOptions(
        chosen, topics=frozenset() if dlqs else chosen.topics, dlqs=frozenset(dlqs)
    )


def by_option(command: CommandT) -> CommandT:
    """Add `--by`: the person's name, for the record."""
    return click.option(
        "--by",
        default=user_name,
        show_default="the user's name",
        help="The person who does it; recorded.",
    )(command)


def reason_option(*names: str, help: str) -> Callable[[CommandT], CommandT]:
    """Add the option, under `names`, for the reason of a decision: recorded, and never empty."""
    return click.option(*names, required=True, callback=_said, help=help)


def given_with(given: LetterOptions, request_ids: tuple[str, ...]) -> LetterOptions:
    """Return the given filter, with the requests that were named as arguments added.

    Raises:
        InvalidMessage: one of them is no id.
    """
    ids = frozenset(check_request_id(one) for one in request_ids)
    return replace(given, filter=replace(given.filter, ids=given.filter.ids | ids))


def require_some(given: LetterOptions, *, everything: bool) -> None:
    """Return when the command line says which letters are meant.

    Raises:
        UsageError: it says nothing, or two things that exclude each other.
    """
    if given.filter.states:
        raise click.UsageError("--state is for looking: here only what is open is taken anyway")
    is_filtered = given.filter != LetterFilter()
    if everything and is_filtered:
        raise click.UsageError("--all and a filter contradict each other: give one of them")
    if not (everything or is_filtered or given.dlqs):
        raise click.UsageError("say which letters: their ids, a filter, or --all")


class NotConfirmed(OncewardError):
    """A person was asked, and did not say yes."""

    exit_code = ExitCode.BAD_ANSWER
    entry = "error-notconfirmed"


def require_yes(question: str) -> None:
    """Return when the person says yes.

    Without a terminal nobody can: a script says `--yes`.

    Raises:
        NotConfirmed: the answer is no, or empty, or there is nobody to ask.
    """
    try:
        if click.confirm(question, err=True):
            return
    except click.Abort:
        click.echo(err=True)  # behind the question
    raise NotConfirmed("it was not confirmed, so nothing was changed (--yes confirms it)")


def _said(context: click.Context, option: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("say it in a few words: it is recorded")
    return value


@contextmanager
def stopping_at_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set; a second signal ends the process as usual."""
    stopping = threading.Event()
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()
        signal.signal(number, before[signal.Signals(number)])

    for one in before:
        signal.signal(one, stop)
    try:
        yield stopping
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
