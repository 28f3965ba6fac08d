"""The events of one request, from whatever is known of it."""

from consumer.dlq.timeline import Clock, EventKind, TimelineEvent, timeline_of
from consumer.dlq.timeline_words import event_words
from consumer.journal.actions import Action
from consumer.journal.lookup import PastRun
from feedback.status import State
from feedback.statuses import Status
from tests.consumer.dlq.reports import NOW, report_with
from tests.consumer.dlq.samples import FAILED_AT, letter
from tests.consumer.features.dead_letters.samples import failed
from tests.consumer.samples import row

SENT_AT = 1_700_000_000_000  # as the sample letters say


def kinds(events: list[TimelineEvent]) -> list[str]:
    """Return the kinds of events, in their order."""
    return [one.kind.value for one in events]


def test_letters_runs_row_and_actions_are_one_line_of_time() -> None:
    at = (SENT_AT + 1, SENT_AT + 2, SENT_AT + 3)
    run = PastRun(1, 1, "w1", "payments", 3, 41, *at, "X", "w2", None)
    whole = report_with(
        letters=[letter(DLQ_ATTEMPTS="1"), letter(DLQ_ATTEMPTS="2")],
        row=failed(generation=2, published_at=FAILED_AT + 5),
        runs=[run],
        actions=[Action("a", "redrive", "ann@host", SENT_AT + 9, "it is back", "r", 1)],
        status=Status("a", State.FAILED, updated_at=FAILED_AT + 5, generation=2),
    )
    events = timeline_of(whole)
    assert kinds(events) == [
        *("sent", "claimed", "effect entered", "ended", "action"),
        *("claimed", "ended", "told", "dead letter", "dead letter"),
    ]
    assert [one.at for one in events] == sorted(one.at for one in events)
    assert [one.generation for one in events if one.kind is EventKind.ENDED] == [1, 2]
    assert event_words(events[4]) == "action redrive, run 1, by ann@host: it is back"
    assert event_words(events[6]).startswith("ended FAILED HANDLER_ERROR, run 2")


def test_a_request_that_only_redis_knows_was_sent_and_has_a_deadline() -> None:
    pending = Status("a", State.PENDING, attempt=2, updated_at=NOW, deadline_at=NOW + 5)
    sent, deadline = timeline_of(report_with(status=pending))
    assert (sent.kind, sent.clock, sent.detail) == (EventKind.SENT, Clock.REDIS, "attempt 2")
    assert (deadline.kind, deadline.at) == (EventKind.DEADLINE, NOW + 5)


def test_a_lost_request_is_shown_as_it_was_told_last() -> None:
    accepted = Status("a", State.LOST, attempt=1, updated_at=NOW, worker="w1")
    (event,) = timeline_of(report_with(status=accepted))
    assert (event.kind, event.by, event.name) == (EventKind.ACCEPTED, "w1", None)
    running = Status("a", State.LOST, attempt=1, generation=1, updated_at=NOW, claimed_at=NOW - 1)
    claimed, told = timeline_of(report_with(status=running))
    assert (claimed.kind, told.kind, told.name) == (EventKind.CLAIMED, EventKind.TOLD, "RUNNING")


def test_a_request_that_waits_for_its_next_run_says_when_that_is() -> None:
    waiting = row("a", "RETRYING", finished_at=NOW, due_at=NOW + 9, deadline_at=NOW + 99)
    assert kinds(timeline_of(report_with(row=waiting))) == ["ended", "next run due", "deadline"]


def test_the_time_in_an_id_is_told_and_any_other_id_tells_none() -> None:
    (made,) = timeline_of(report_with("018bcfe5-6800-7b1e-9d3a-2f6c1f0e8a11"))
    assert (made.at, made.kind) == (SENT_AT, EventKind.NAMED)
    assert timeline_of(report_with("018bcfe5-6800-4b1e-9d3a-2f6c1f0e8a11")) == []
    assert timeline_of(report_with("order-7")) == []


def test_events_of_one_moment_stand_in_their_natural_order() -> None:
    at_once = row("a", "CLAIMED", claimed_at=NOW, effect_at=NOW, deadline_at=NOW)
    assert kinds(timeline_of(report_with(row=at_once))) == ["claimed", "effect entered", "deadline"]
