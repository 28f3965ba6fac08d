"""The commands that are offered for a request, and who holds it."""

import shlex
from typing import Any

import pytest

from consumer.dlq.letter_state import LetterState
from consumer.dlq.next_commands import next_commands
from consumer.dlq.report import RequestHolder, holder_of
from consumer.dlq.timeline_page import next_lines
from consumer.dlq.timeline_words import holder_words
from consumer.handlers.request import Request
from consumer.journal.actions import Action
from consumer.journal.lookup import LeaseRow
from consumer.journal.pauses import PauseRow
from consumer.journal.redrive.redrive_rule import Redrivable
from feedback.status import State
from feedback.statuses import Status
from tests.consumer.dlq.reports import NOW, report_with
from tests.consumer.dlq.samples import foreign, letter
from tests.consumer.features.dead_letters.samples import failed
from tests.consumer.samples import row

OPEN = {"letters": [letter(DLQ_REDRIVE_COUNT="3")], "row": failed()}
IN_DOUBT = ["resolve --succeeded --run 1", "resolve --failed --run 1"]


@pytest.mark.parametrize(
    ("facts", "commands"),
    [
        ({"status": Status("a", State.UNKNOWN)}, []),
        ({"status": Status("a", State.PENDING)}, ["wait a", "check"]),
        ({"status": Status("a", State.LOST)}, ["wait a", "check"]),
        ({"status": Status("a", State.ACCEPTED)}, ["wait --no-resend"]),
        ({"status": Status("a", State.SUCCEEDED)}, []),
        ({"row": row("a", "CLAIMED")}, ["wait --no-resend"]),
        ({"row": row("a", "RETRYING")}, ["wait --no-resend"]),
        ({"row": row("a", "SUCCEEDED")}, []),
        ({"row": row("a", "IN_DOUBT")}, IN_DOUBT),
        (OPEN | {"row": row("a", "IN_DOUBT"), "verdict": Redrivable.IN_DOUBT}, IN_DOUBT),
        ({"row": row("a", "SKIPPED", by="b")}, ["show b"]),
        ({"row": failed()}, ["check"]),
        ({"row": failed(resend=True, deadline_at=NOW + 1)}, ["wait a"]),
        (OPEN | {"verdict": Redrivable.SEND}, ["redrive --dry-run", "redrive a", "discard"]),
        (OPEN | {"verdict": Redrivable.TOO_OFTEN}, ["redrive --max-redrives 4", "discard"]),
        (OPEN | {"verdict": Redrivable.DISCARDED}, ["discard --undo"]),
        (OPEN | {"verdict": Redrivable.ON_ITS_WAY}, ["wait a"]),
        (OPEN | {"verdict": Redrivable.DONE}, []),
        (
            {"letters": [letter()], "verdict": Redrivable.SENT_BEFORE},
            ["redrive --unknown --again --dry-run", "redrive --unknown --again", "discard --again"],
        ),
        (
            {"letters": [letter()], "verdict": Redrivable.SEND_UNKNOWN, "dlqs": ["x"]},
            ["redrive --dlq x --no-journal --dry-run", "redrive --dlq x --no-journal a"],
        ),
        (
            {"letters": [letter()], "verdict": Redrivable.NO_ROW, "dlqs": ["their-dlq"]},
            [
                "redrive --dlq their-dlq --unknown --dry-run",
                "redrive --dlq their-dlq --unknown a",
                "discard --dlq their-dlq",
            ],
        ),
    ],
)
def test_each_state_has_its_commands(facts: dict[str, Any], commands: list[str]) -> None:
    found = [one.command.partition(" ")[2] for one in next_commands(report_with(**facts))]
    assert len(found) == len(commands), found
    assert all(one.startswith(given) for one, given in zip(found, commands, strict=True)), found


THEIRS = {"letters": [foreign()], "state": LetterState.UNKNOWN, "dlqs": ["x"]}
CLOSED = [Action("a", "discard", "ann", 1, None, None, None)]
CLOSED_HERE = [CLOSED[0]._replace(generation=1)]


@pytest.mark.parametrize(
    ("facts", "commands"),
    [
        ({"row": row("a", "SUCCEEDED"), "verdict": Redrivable.DONE}, ["discard --dlq x"]),
        ({"row": row("a", "CLAIMED")}, ["wait --no-resend", "discard --dlq x"]),
        ({"row": row("a", "SUCCEEDED"), "dlqs": []}, ["discard --dlq connect-dlq"]),
        ({"row": row("a", "IN_DOUBT")}, [*IN_DOUBT, "discard --dlq x"]),
        (
            {"row": row("a", "SUCCEEDED"), "state": LetterState.DISCARDED, "actions": CLOSED},
            ["discard --undo --dlq x --seen 0.1 --because"],
        ),
        (
            {"row": failed(), "verdict": Redrivable.SEND},
            ["redrive --dlq x --dry-run", "redrive --dlq x a", "discard --because"],
        ),
        (
            {"row": failed(), "verdict": Redrivable.DISCARDED, "actions": CLOSED_HERE},
            ["discard --dlq x"],
        ),
        # Its row was pruned since.
        ({"verdict": Redrivable.DISCARDED, "actions": CLOSED_HERE}, ["discard --dlq x"]),
        (
            {"verdict": Redrivable.DISCARDED, "actions": CLOSED_HERE, "dlqs": []},
            ["discard --dlq connect-dlq"],
        ),
        (
            {
                "row": failed(),
                "state": LetterState.DISCARDED,
                "verdict": Redrivable.DISCARDED,
                "actions": [*CLOSED_HERE, *CLOSED],
            },
            ["discard --undo --seen 0.1 --because", "discard --undo --dlq x --seen 0.1 --because"],
        ),
    ],
)
def test_a_letter_of_another_system_is_closed_beside_what_this_group_has_done(
    facts: dict[str, Any], commands: list[str]
) -> None:
    found = [one.command.partition(" ")[2] for one in next_commands(report_with(**THEIRS | facts))]
    assert len(found) == len(commands), found
    assert all(one.startswith(given) for one, given in zip(found, commands, strict=True)), found


def test_a_paused_topic_is_resumed_only_for_what_has_not_ended() -> None:
    pause = PauseRow("payments", "a reason", NOW, "ann")
    (first, *_) = next_commands(report_with(row=row("a", "CLAIMED"), pause=pause), config="x.toml")
    words = f"onceward-worker resume --since {NOW} --config x.toml payments"
    assert first.command == words
    assert next_commands(report_with(row=row("a", "SUCCEEDED"), pause=pause)) == []


def test_a_hostile_id_is_one_word_of_the_shell_and_decides_nothing() -> None:
    name = "-n;`x`$(y)'"
    found = next_commands(report_with(name, row=row(name, "IN_DOUBT")), config="my file.toml")
    for one in found:
        words = shlex.split(one.command)
        assert words[-2:] == ["--", name] and "my file.toml" in words
        assert words[words.index("--because") + 1] == ""
    lines = next_lines(found)
    assert [line for line in lines if line.startswith("onceward")] == [one.command for one in found]
    assert next_commands(report_with("two words", row=row("a", "IN_DOUBT"))) == []


def test_the_counterpartys_keys_are_those_of_the_handler() -> None:
    request = Request.for_tests({}, request_id="a", group="g", voids=2)
    keys = report_with(row=row("a", "CLAIMED", claimed_at=1, voids=2)).idempotency_keys
    assert keys[-1] == request.idempotency_key and len(set(keys)) == 3
    assert report_with(status=Status("a", State.PENDING)).idempotency_keys == []
    assert report_with(row=failed(claimed_at=None)).idempotency_keys == []
    told = Status("a", State.RUNNING, generation=2**62, voids=2**62)
    assert len(report_with(status=told).idempotency_keys) == 10


def test_a_request_is_held_by_its_claim_or_by_the_worker_that_accepted_it() -> None:
    assert holder_of(row("a", "CLAIMED", owner="w1"), None) == RequestHolder("w1")
    assert holder_of(row("a", "CLAIMED", owner="w1-disowned"), None) == RequestHolder(
        "w1", has_given_up=True
    )
    accepted = Status("a", State.ACCEPTED, attempt=2, worker="w2")
    assert holder_of(None, accepted) == RequestHolder("w2")
    assert holder_of(failed(attempt=1), accepted) == RequestHolder("w2")
    lost = Status("a", State.LOST, worker="w2-disowned")
    assert holder_of(None, lost) == RequestHolder("w2", has_given_up=True)
    assert holder_of(failed(attempt=2), accepted) is None
    assert holder_of(row("a", "SUCCEEDED"), accepted) is None


def test_a_holder_lives_as_its_lease_says_else_as_its_heartbeat_does() -> None:
    lease = LeaseRow(NOW + 1, NOW - 9, NOW)
    held = RequestHolder("w1", lease, is_leased=True, beats=False)
    assert holder_words(held).startswith("w1, which lives: its lease holds until 2023-11-14")
    gone = RequestHolder("w1", is_leased=False, beats=True)
    assert holder_words(gone) == "w1, which is dead: it has no lease, a heartbeat"
    assert RequestHolder("w1", beats=True).lives is True
    assert "may live or not" in holder_words(RequestHolder("w1"))
