"""The commands that could come next for a request, ready to paste. Pure.

An id is anybody's text, and quoted for the shell. A command that decides something lacks its
reason, without which it is refused: pasting alone decides nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from consumer.dlq.letter_state import LetterState
from consumer.dlq.report import RequestReport
from consumer.dlq.unfinished import resume_command, unfinished_words
from consumer.journal.actions import Action
from consumer.journal.records import JournalState
from consumer.journal.redrive.redrive_rule import Redrivable
from consumer.journal.redrive.reopening import UnfinishedRedrive
from feedback.console.pasting import pasted
from feedback.errors import InvalidMessage
from feedback.records.envelope import check_request_id
from feedback.status import FINAL, State

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# A status that its client has, with nobody at work.
_UNCLAIMED = frozenset({State.PENDING, State.LOST})
_BECAUSE = ("--because", "")


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command, and its purpose in a few words."""

    command: str
    why: str


def next_commands(report: RequestReport, *, config: str | None = None) -> list[NextCommand]:
    """Return the commands that could come next, the likeliest first; none for no id."""
    try:
        check_request_id(report.request_id)
    except InvalidMessage:
        return []
    found = _Commands(report, config)
    return [*found.of_topic(), *found.of_state(), *found.of_theirs()]


class _Commands:
    def __init__(self, report: RequestReport, config: str | None) -> None:
        self._report = report
        self._file = config
        self._config = () if config is None else ("--config", config)
        # Of another system's letter, which is open: this group's discard does not close it.
        self._is_closed_here_alone = (
            report.is_theirs
            and report.state is LetterState.UNKNOWN
            and report.verdict is Redrivable.DISCARDED
        )
        # An id without a topic is of the row: see `discard`.
        is_apart = report.ours is not None or self._is_closed_here_alone
        lies_in = (report.letters[-1].record.topic,) if is_apart else ()
        dlqs = sorted(report.dlqs) or lies_in
        self._dlqs = [word for one in dlqs for word in ("--dlq", one)]

    def of_topic(self) -> Iterator[NextCommand]:
        """Yield those that let its topic go on."""
        pause = self._report.pause
        if pause is not None and not self._report.has_ended and _TOPIC.fullmatch(pause.topic):
            words = ("onceward-worker", "resume", "--since", str(pause.since), *self._config)
            yield NextCommand(pasted(words, pause.topic), "its topic is paused: let it go on")

    def of_theirs(self) -> Iterator[NextCommand]:
        """Yield those that close the case of a letter of another system, whatever we have done."""
        if self._report.ours is None:
            return
        if self._report.state is LetterState.DISCARDED:
            seen = _seen(self._report.discard_of_letter)
            words = ("discard", "--undo", *self._dlqs, *seen, *_BECAUSE)
            yield self._dlq("open the case of the other system's letter again: say why", *words)
        elif self._report.is_open_here:
            yield self._dlq("close this group's own failure first: say why", "discard", *_BECAUSE)
        else:
            words = ("discard", *self._dlqs, *_BECAUSE)
            yield self._dlq("nothing is to be done in the other system: say why", *words)

    def of_state(self) -> Iterator[NextCommand]:
        """Yield those that its state allows."""
        row, status = self._report.row, self._report.status
        if row is not None and row.state == JournalState.IN_DOUBT:
            yield from self._of_doubt()
        elif row is not None and row.state in (JournalState.CLAIMED, JournalState.RETRYING):
            yield self._client("its outcome, as soon as there is one", "wait", "--no-resend")
        elif row is not None and row.state == JournalState.SKIPPED and row.by:
            yield from self._other(row.by)
        elif self._report.unsent_by is not None and self._report.verdict is not Redrivable.SEND:
            yield from self._of_unsent(self._report.unsent_by)
        elif self._report.verdict is not None:
            yield from self._of_letter(self._report.verdict)
        elif row is not None and row.state == JournalState.FAILED:
            yield from self._of_failure_without_letter()
        elif row is None and status is not None and status.state in _UNCLAIMED:
            yield self._client("wait for it, and send it again where that helps", "wait")
            yield NextCommand(self._alone("onceward-worker", "check"), "does each server answer?")
        elif row is None and status is not None and status.state in (*_OPEN, State.IN_DOUBT):
            yield self._client("its outcome, as soon as there is one", "wait", "--no-resend")

    def _of_doubt(self) -> Iterator[NextCommand]:
        how = "say between the quotes how you know"
        assert self._report.row is not None
        of = ("--run", str(self._report.row.generation), *_BECAUSE)
        yield self._dlq(f"its effect happened: {how}", "resolve", "--succeeded", *of)
        yield self._dlq(f"its effect did not happen: {how}", "resolve", "--failed", *of)

    def _of_unsent(self, redrive: UnfinishedRedrive) -> Iterator[NextCommand]:
        yield NextCommand(
            resume_command(redrive.redrive_id, config=self._file), unfinished_words(redrive)
        )
        if self._report.is_on_its_way:
            yield self._client("its outcome, as soon as there is one", "wait")

    def _of_letter(self, verdict: Redrivable) -> Iterator[NextCommand]:
        dlqs = self._dlqs
        unknown = _UNKNOWN.get(verdict, ())
        if verdict is Redrivable.SEND or unknown:
            how = "send it back for one further run"
            risk = "; nothing says whether it has run" if unknown else ""
            yield self._dlq("would it be sent back?", "redrive", *dlqs, *unknown, "--dry-run")
            yield self._dlq(how + risk, "redrive", *dlqs, *unknown)
        elif verdict is Redrivable.TOO_OFTEN:
            most = str(self._report.letters[-1].failure.redrive_count + 1)
            yield self._dlq("send it back once more", "redrive", *dlqs, "--max-redrives", most)
        elif verdict is Redrivable.DISCARDED and not self._is_closed_here_alone:
            whose = "its" if self._report.ours is None else "this group's"
            words = ("discard", "--undo", *_seen(self._report.discard), *_BECAUSE)
            yield self._dlq(f"open {whose} case again: say why", *words)
        elif verdict is Redrivable.ON_ITS_WAY:
            yield self._client("its outcome, as soon as there is one", "wait")
        is_closable = verdict in _CLOSABLE or self._is_closed_here_alone
        if is_closable and self._report.ours is None:
            again = ("--again",) if verdict is Redrivable.SENT_BEFORE else ()
            yield self._dlq("nothing is to be done: say why", "discard", *dlqs, *again, *_BECAUSE)

    def _of_failure_without_letter(self) -> Iterator[NextCommand]:
        if self._report.is_on_its_way:
            yield self._client("wait for it, and send it again where that helps", "wait")
        elif self._report.letters_away is not None:
            yield self._dlq("its letter, once Kafka gives it", "show", *self._dlqs)
        else:
            yield NextCommand(
                self._alone("onceward-worker", "check"), "its dead letter is not there yet"
            )

    def _other(self, request_id: str) -> Iterator[NextCommand]:
        try:
            check_request_id(request_id)
        except InvalidMessage:
            return
        words = ("onceward-dlq", "show", *self._config)
        yield NextCommand(pasted(words, request_id), "the request that succeeded in its stead")

    def _dlq(self, why: str, *words: str) -> NextCommand:
        return self._with_id(why, "onceward-dlq", *words)

    def _client(self, why: str, *words: str) -> NextCommand:
        return self._with_id(why, "onceward-client", *words)

    def _with_id(self, why: str, *words: str) -> NextCommand:
        return NextCommand(pasted((*words, *self._config), self._report.request_id), why)

    def _alone(self, *words: str) -> str:
        return shlex.join((*words, *self._config))


def _seen(discard: Action | None) -> tuple[str, ...]:
    """Return the option by which no discard of later is undone."""
    return () if discard is None else ("--seen", discard.stamp)


_OPEN = tuple(state for state in State if state not in FINAL and state is not State.UNKNOWN)
_UNKNOWN = {
    Redrivable.NO_ROW: ("--unknown",),
    Redrivable.SENT_BEFORE: ("--unknown", "--again"),
    Redrivable.SEND_UNKNOWN: ("--no-journal",),
}
_CLOSABLE = frozenset(
    {Redrivable.SEND, Redrivable.TOO_OFTEN, Redrivable.ANOTHERS_ID, *_UNKNOWN}
    - {Redrivable.SEND_UNKNOWN}
)
