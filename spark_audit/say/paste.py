"""The commands that a person pastes for a finding. Pure.

An id is anybody's text: it is quoted for the shell, stands behind `--` where a command would take
it for an option, and is in no command where no client of ours could have sent it. A command that
decides something lacks its reason, without which it is refused: pasting alone decides nothing. One
that ends a doubt names the run that was judged: pasted later, it ends none of a run since.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from feedback.console.pasting import pasted
from feedback.errors import InvalidMessage
from feedback.records.envelope import check_request_id
from spark_audit.findings import Finding


@dataclass(frozen=True, slots=True)
class Paste:
    """A command, and its purpose.

    Args:
        why: in a few words.
    """

    command: str
    why: str


@dataclass(frozen=True, slots=True)
class _Form:
    """A command without the id that ends it.

    Args:
        names_run: whether the command is about one run, which it names behind its first option.
    """

    words: tuple[str, ...]
    why: str
    names_run: bool = False


def pastes_of(finding: Finding, request_id: str, *, run: int = 0) -> tuple[Paste, ...]:
    """Return the commands for a request with a finding; none for an id that is none.

    >>> pastes_of(Finding.LOST, "$(rm -rf .)")
    ()
    >>> [one.command for one in pastes_of(Finding.LATE, "-n;`x`")]
    ["onceward-client status -- '-n;`x`'"]

    Args:
        run: the generation that was judged; 0 where none is known.
    """
    try:
        check_request_id(request_id)
    except InvalidMessage:
        return ()
    return tuple(_with_id(form, request_id, run) for form in _OF_ONE[finding])


def pastes_for_all(finding: Finding, summary: Mapping[str, Any]) -> tuple[Paste, ...]:
    """Return the commands for all requests with a finding of a summary."""
    if finding is Finding.LOST and not summary["resend"]["ready"]:
        return ()
    forms = _OF_ALL.get(finding, ())
    return tuple(Paste(shlex.join(form.words), form.why) for form in forms)


def _with_id(form: _Form, request_id: str, run: int) -> Paste:
    run_words = ("--run", str(run)) if form.names_run and run else ()
    return Paste(pasted((*form.words[:3], *run_words, *form.words[3:]), request_id), form.why)


_STATUS = _Form(("onceward-client", "status"), "as its client sees it now")
_SHOW = _Form(("onceward-dlq", "show"), "letter, journal and status, side by side")
_HAPPENED = _Form(
    ("onceward-dlq", "resolve", "--succeeded", "--because", ""),
    "its effect happened: say between the quotes how you know",
    names_run=True,
)
_DID_NOT = _Form(
    ("onceward-dlq", "resolve", "--failed", "--because", ""),
    "its effect did not happen: say between the quotes how you know",
    names_run=True,
)
_CLOSE = _Form(
    ("onceward-dlq", "discard", "--because", ""),
    "nothing is to be done: say between the quotes why",
)
_CHECK = _Form(("onceward-worker", "check"), "does each server answer?")

_OF_ONE: Mapping[Finding, tuple[_Form, ...]] = {
    Finding.LOST: (_SHOW,),
    Finding.FORGOTTEN: (_SHOW,),
    Finding.OVERDUE: (_STATUS, _SHOW),
    Finding.RAN_TWICE: (_SHOW,),
    Finding.IN_DOUBT: (_SHOW, _HAPPENED, _DID_NOT),
    Finding.STUCK: (_SHOW,),
    Finding.ORPHAN: (_SHOW,),
    Finding.PAYLOAD_MISMATCH: (_SHOW,),
    Finding.RESENT: (_STATUS,),
    Finding.FAILED_WITHOUT_DEAD_LETTER: (_SHOW, _CLOSE),
    Finding.DEAD_LETTER_WITHOUT_FAILURE: (_SHOW,),
    Finding.MALFORMED: (_SHOW,),
    Finding.LATE: (_STATUS,),
    Finding.STATUS_DISAGREES: (_STATUS, _SHOW),
}
_OF_ALL: Mapping[Finding, tuple[_Form, ...]] = {
    Finding.LOST: (
        _Form(
            ("onceward-client", "send", "--file", "resend.jsonl"),
            "in the folder of this page: sends those again that are safe to send",
        ),
    ),
    Finding.OVERDUE: (
        _Form(("onceward-worker", "paused"), "is their topic paused?"),
        _CHECK,
    ),
    Finding.STUCK: (_CHECK,),
    Finding.FAILED_WITHOUT_DEAD_LETTER: (_CHECK,),
    Finding.PAYLOAD_MISMATCH: (
        _Form(
            ("onceward-dlq", "list", "--all", "--code", "PAYLOAD_MISMATCH"),
            "the records that were refused",
        ),
    ),
    Finding.MALFORMED: (
        _Form(
            ("onceward-dlq", "list", "--all", "--code", "INVALID_MESSAGE"),
            "the records that were refused",
        ),
    ),
}
