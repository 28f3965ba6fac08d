"""What a person sees, in terminals of different widths."""

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from consumer.dlq.letter_state import LetterState
from consumer.dlq.list_page import console_for, list_page
from consumer.dlq.report import RequestReport
from consumer.dlq.show_page import VALUE_LIMIT, WIDE, show_page
from consumer.dlq.tally import MOST_NAMES, LetterTally
from consumer.journal.actions import Action
from consumer.journal.lookup import PastRun
from feedback.status import State
from feedback.statuses import Status
from tests.consumer.dlq.samples import FAILED_AT, letter
from tests.consumer.features.dead_letters.samples import failed

RUN = PastRun(1, 1, "worker-1", "payments", 3, 41, 1, None, FAILED_AT, "FAILED", "claim", None)


def drawn(page: RenderableType, *, width: int) -> list[str]:
    """Return the lines that a terminal of this width shows."""
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=True, color_system=None).print(page)
    return stream.getvalue().splitlines()


def report(**changes: Any) -> RequestReport:
    """Return all that may be known of a request."""
    facts: dict[str, Any] = {
        "request_id": "a",
        "letters": [letter(DLQ_ATTEMPTS="1"), letter(DLQ_ATTEMPTS="2")],
        "state": LetterState.OPEN,
        "row": failed(generation=2),
        "runs": [RUN],
        "actions": [Action("a", "redrive", "ann@host", FAILED_AT, "the bank is back", "r-1", 1)],
        "status": Status("a", State.FAILED, code="HANDLER_ERROR"),
        "away": None,
    }
    return RequestReport(**{**facts, **changes})


@pytest.mark.parametrize("width", [80, WIDE])
def test_a_request_is_shown_whole_at_every_width(width: int) -> None:
    page = show_page(report(), width=width, value_limit=VALUE_LIMIT)
    lines = drawn(page, width=width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for part in ("request", "timeline", "value: JSON, 13 bytes", "dead letter", "headers as sent"):
        assert f"─ {part} ─" in text
    for part in ("stack", "journal", "what the client sees"):
        assert f"─ {part} ─" in text
    assert "the bank is back" in text and "DLQ_REASON" in text


def test_letter_and_journal_stand_side_by_side_where_there_is_room() -> None:
    for width, is_beside in ((WIDE, True), (80, False)):
        lines = drawn(show_page(report(), width=width), width=width)
        (line,) = (one for one in lines if "─ dead letter ─" in one)
        assert ("─ journal ─" in line) is is_beside


def test_what_is_not_known_is_said() -> None:
    unknown = report(letters=[], state=None, row=None, runs=[], actions=[], status=None)
    text = "\n".join(drawn(show_page(unknown, width=80), width=80))
    assert text.count("none") == 1 and text.count("nothing") == 2
    away = report(status=None, away="Redis is away: [b]refused[/b]")
    assert "[b]refused[/b]" in "\n".join(drawn(show_page(away, width=80), width=80))


def test_a_value_is_hidden_or_cut_as_it_is_asked_for() -> None:
    long = report(letters=[letter(of={"value": b"v" * 5000})])
    hidden = "\n".join(drawn(show_page(long, width=80), width=80))
    assert "vvvv" not in hidden and "5,000 bytes; --value shows it" in hidden
    cut = "\n".join(drawn(show_page(long, width=80, value_limit=VALUE_LIMIT), width=80))
    assert cut.count("v" * 70) > 10 and "5,000 bytes, cut" in cut
    whole = "\n".join(drawn(show_page(long, width=80, value_limit=2**62), width=80))
    assert "cut" not in whole


def test_a_list_names_the_most_frequent_and_counts_the_rest() -> None:
    tally = LetterTally(limit=3)
    for number in range(MOST_NAMES // 50):
        tally.add(letter(f"r{number}", DLQ_REASON=f"REASON_{number:02d}"), LetterState.OPEN)
    lines = drawn(list_page(tally, width=160, now=FAILED_AT), width=160)
    text = "\n".join(lines)
    assert lines[0].startswith("20 dead letters, 2023-11-14 22:13:25Z")
    assert "REASON_09" in text and "of 10 more" in text
    assert "17 older ones are not listed: see --limit" in text


@pytest.mark.parametrize("width", [60, 80, 100, 140, 240])
def test_each_width_has_all_of_a_letter_but_the_end_of_its_message(width: int) -> None:
    tally = LetterTally(limit=3)
    name = "0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11"
    long = "the bank is on fire " * 30
    tally.add(letter(name, DLQ_EXCEPTION_MESSAGE=long), LetterState.IN_DOUBT)
    page = list_page(tally, width=width, now=FAILED_AT + 7_300_000)
    lines = drawn(page, width=width)
    assert max(map(len, lines)) <= width
    at = next(number for number, line in enumerate(lines) if name in line)
    first, second = lines[at : at + 2]
    time = "" if width < 80 else "  2023-11-14 22:13:25Z"
    assert first == f"  2h  {name}  in doubt{time}"
    assert second.startswith("      HANDLER_ERROR in payments 3/41, 1 run: the bank")
    assert second.endswith("…") and len(second) == width


def test_a_long_id_is_whole_and_long_names_leave_room_for_the_message() -> None:
    tally = LetterTally(limit=3)
    hostile = "x" * 200 + "\x1b[2J"
    one = letter("i" * 128, DLQ_REASON=hostile, ORIGINAL_TOPIC=hostile)
    tally.add(one, LetterState.OPEN)
    lines = drawn(list_page(tally, width=100, now=FAILED_AT), width=100)
    assert "i" * 128 in "".join(lines)
    (line,) = (one for one in lines if " in xxx" in one)
    assert "OSErr" in line and "\x1b" not in line and len(line) <= 100


def test_without_a_terminal_nothing_needs_to_fit_but_what_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console_for().width >= 200
    monkeypatch.setenv("COLUMNS", "72")
    assert console_for().width == 72
    monkeypatch.setenv("COLUMNS", "wide")
    assert console_for().width >= 200
