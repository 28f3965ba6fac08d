"""The options that the acting commands share."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import click

from consumer.dlq.filter import Filter
from consumer.dlq.options import Given
from feedback.console.commands import user_name
from feedback.errors import ExitCode, OncewardError
from feedback.records.envelope import check_request_id

Command = Callable[..., Any]


def by_option(command: Command) -> Command:
    """Add `--by`: who did it, for the record."""
    return click.option(
        "--by",
        default=user_name,
        show_default="the user's name",
        help="The person who does it; recorded.",
    )(command)


def reason_option(*names: str, help: str) -> Callable[[Command], Command]:
    """Add the option, under `names`, for the reason of a decision: recorded, and never empty."""
    return click.option(*names, required=True, callback=_said, help=help)


def given_with(given: Given, request_ids: tuple[str, ...]) -> Given:
    """Return the given filter, with the requests that were named as arguments added.

    Raises:
        InvalidMessage: one of them is no id.
    """
    ids = frozenset(check_request_id(one) for one in request_ids)
    return replace(given, filter=replace(given.filter, ids=given.filter.ids | ids))


def require_some(given: Given, *, everything: bool) -> None:
    """Return when the command line says which letters are meant.

    Raises:
        UsageError: it says nothing, or two things that exclude each other.
    """
    if given.filter.standings:
        raise click.UsageError("--state is for looking: here only what is open is taken anyway")
    is_chosen = bool(given.dlqs) or given.filter != Filter()
    if not is_chosen and not everything:
        raise click.UsageError("say which letters: their ids, a filter, or --all")


class NotConfirmed(OncewardError):
    """A person was asked, and did not say yes."""

    exit_code = ExitCode.BAD_ANSWER


def require_yes(question: str) -> None:
    """Return when the person at the terminal says yes.

    Raises:
        NotConfirmed: the answer is no, or empty.
    """
    try:
        if click.confirm(question, err=True):
            return
    except click.Abort:
        click.echo(err=True)  # behind the question
    raise NotConfirmed("it was not confirmed, so nothing was changed")


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
