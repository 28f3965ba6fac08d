"""A redrive that is cut off anywhere goes on where it was: nothing is sent twice, nothing is
forgotten. Killed is whoever raises what nobody catches: what stands then in the journal, in Redis
and in Kafka is what a SIGKILL at that place leaves behind."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from consumer.dlq.filter import LetterFilter
from consumer.dlq.redrive.batch_sender import RedriveStatuses
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.record import sent_by
from consumer.dlq.redrive.redrive_plan import FieldValue, RedrivePlan, WholeValue
from consumer.dlq.redrive.redrive_session import NotResumed, RedriveEnding, begin, resume
from consumer.journal.redrive.redrive_work import RedriveWork
from feedback.errors import KafkaUnavailable, NotAvailable
from feedback.kafka.outgoing import NotAcknowledged, Outgoing
from feedback.kafka.scan import KafkaScan
from feedback.kafka.writer import KafkaWriter
from tests.consumer.dlq.redrive.conftest import PlantLetters
from tests.consumer.dlq.redrive.planted import LETTERS, Planted
from tests.consumer.dlq.redrive.scene import StartedDlq
from tests.eventually import eventually

pytestmark = pytest.mark.waits

# In chunks of 50, by the rate.
RATE = 100.0
# A letter every other second: the end is eight minutes away, however slow the machine is.
SLOWLY = ("--rate", "0.5")
HALF = 20


class Killed(BaseException):
    """The process is gone."""


def nth(call: Callable[..., Any], number: int, *, after: bool) -> Callable[..., Any]:
    """Return a call that is the process's last when it is made for the `number`-th time."""
    made = iter(range(1, 1_000_000))

    def last(*arguments: Any, **named: Any) -> Any:
        is_last = next(made) == number
        if is_last and not after:
            raise Killed
        answer = call(*arguments, **named)
        if is_last:
            raise Killed
        return answer

    return last


WRITE = KafkaWriter.write


class Place(NamedTuple):
    """Where a process is killed: at this call of it, the how-manieth, before or after its work."""

    owner: type
    name: str
    number: int
    after: bool

    @property
    def last(self) -> Callable[..., Any]:
        """The call that a test puts in the place of the real one."""
        return nth(getattr(self.owner, self.name), self.number, after=self.after)


class HalfWritten(Place):
    """Killed while Kafka has some of the records."""

    @property
    def last(self) -> Callable[..., Any]:
        made = iter(range(1, 1_000_000))

        def write(writer: KafkaWriter, records: list[Outgoing]) -> list[KafkaUnavailable | None]:
            if next(made) < self.number:
                return WRITE(writer, records)
            WRITE(writer, records[:HALF])
            raise Killed

        return write


# A page is two batches, and one of them is carried while the next is reopened: that of the second
# page saves none of the first, that of the third page does.
PLACES = {
    "before the first reopening": Place(RedriveWork, "reopen", 1, after=False),
    "after the first reopening": Place(RedriveWork, "reopen", 1, after=True),
    "before the next page's reopening": Place(RedriveWork, "reopen", 3, after=False),
    "after a reopening": Place(RedriveWork, "reopen", 3, after=True),
    "before a reopening that saves a page": Place(RedriveWork, "reopen", 5, after=False),
    "after a reopening that saves a page": Place(RedriveWork, "reopen", 5, after=True),
    "after FAILED that may be sent again": Place(RedriveStatuses, "reopened", 2, after=True),
    "after PENDING": Place(RedriveStatuses, "sent_back", 3, after=True),
    "in the middle of a write": HalfWritten(KafkaWriter, "write", 1, after=False),
    "in the middle of a later write": HalfWritten(KafkaWriter, "write", 4, after=False),
    "after a write": Place(KafkaWriter, "write", 2, after=True),
    "before the last save": Place(RedriveWork, "save", 1, after=False),
    "after the last save": Place(RedriveWork, "save", 1, after=True),
    "before its end": Place(RedriveWork, "leave", 1, after=False),
}
PAGE = 70


EVERYTHING = RedrivePlan(LetterFilter())


@pytest.fixture(autouse=True)
def _the_dead_are_gone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a process that was killed here count as gone, though this one lives; pages are small."""
    monkeypatch.setattr("consumer.dlq.unfinished.is_gone", lambda owner: True)
    monkeypatch.setattr("feedback.kafka.scan.PAGE_RECORDS", PAGE)
    yield


def cut(planted: Planted, place: str, plan: RedrivePlan = EVERYTHING) -> str:
    """Begin a redrive that is killed, and return its id."""
    where = PLACES[place]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(where.owner, where.name, where.last)
        begin(planted.settings, plan, by="zoe", because=None, pace=RedrivePace(RATE))
    return planted.redrive().redrive_id


def go_on(planted: Planted, redrive_id: str, rate: float | None = None) -> RedriveEnding:
    return resume(planted.settings, redrive_id, by="bob", because=None, pace=RedrivePace(rate))


@pytest.mark.parametrize("place", PLACES)
def test_killed_anywhere_it_goes_on_and_sends_each_once(planted: Planted, place: str) -> None:
    redrive_id = cut(planted, place)
    ending = go_on(planted, redrive_id)
    assert ending.state == "done"
    sent = planted.sent(redrive_id)
    assert len(sent) == LETTERS
    assert set(sent.values()) == {1}
    assert ending.counts == {"read": LETTERS, "chosen": LETTERS, "sent": LETTERS}
    assert go_on(planted, redrive_id).state == "done"
    assert planted.sent(redrive_id) == sent


def test_killed_again_and_again_at_each_place_it_ends(planted: Planted) -> None:
    redrive_id = cut(planted, "in the middle of a write")
    for where in PLACES.values():
        # The first call of each kind is made whatever is left to do, but for the save.
        first = where._replace(number=1)
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            patch.setattr(first.owner, first.name, first.last)
            go_on(planted, redrive_id, RATE)
    go_on(planted, redrive_id, RATE)
    sent = planted.sent(redrive_id)
    assert (len(sent), set(sent.values())) == (LETTERS, {1})


def test_a_replacement_is_made_once_as_well(planted: Planted) -> None:
    plan = RedrivePlan(LetterFilter(), setting=FieldValue.parse("filling=x"))
    redrive_id = cut(planted, "in the middle of a write", plan)
    go_on(planted, redrive_id)
    sent = planted.sent(redrive_id)
    assert (len(sent), set(sent.values())) == (LETTERS, {1})


@pytest.mark.parametrize("place", ["after the first reopening", "before its end"])
def test_a_whole_value_is_sent_once_by_whoever_goes_on_and_then_forgotten(
    planted: Planted, place: str
) -> None:
    old, value = "request-00000007", b'{"card": "4111111111111111"}'
    plan = RedrivePlan(LetterFilter(ids=frozenset([old])), setting=WholeValue(value))
    redrive_id = cut(planted, place, plan)
    assert RedrivePlan.from_json(planted.redrive().filter).setting == WholeValue(value)
    go_on(planted, redrive_id)
    with KafkaScan(planted.settings.kafka, committed_only=False) as scan:
        pages = list(scan.pages(scan.spans([planted.topic])))
    found = [one for page in pages for one in page.records]
    assert [(one.value, sent_by(one.headers, redrive_id)) for one in found] == [(value, old)]
    stands = planted.redrive()
    assert RedrivePlan.from_json(stands.filter).setting == WholeValue(None)
    assert (stands.state, stands.named) == ("done", {old: "sent"})
    assert go_on(planted, redrive_id).state == "done"
    assert planted.sent(redrive_id) == Counter([old])


def test_whoever_goes_on_knows_of_the_requests_that_were_named_and_is_recorded(
    planted: Planted,
) -> None:
    named = ("request-00000000", "request-00000249", "nobody")
    plan = RedrivePlan(LetterFilter(ids=frozenset(named)))
    redrive_id = cut(planted, "before its end", plan)
    ending = go_on(planted, redrive_id)
    assert ending.of_named == {named[2]: "no_letter", named[0]: "sent", named[1]: "sent"}
    assert go_on(planted, redrive_id).of_named == ending.of_named
    assert planted.redrive().counts == {"read": LETTERS, "chosen": 2, "sent": 2}
    done = [(one["action"], one["by"], one["request_id"]) for one in planted.actions()]
    sent = sorted(("redrive", "zoe", one) for one in named[:2])
    assert (sorted(done[:2]), done[2:]) == (sent, [("resume", "bob", None)])


def test_what_is_sent_after_a_resume_is_sent_by_whoever_resumed(planted: Planted) -> None:
    redrive_id = cut(planted, "after a reopening")
    go_on(planted, redrive_id)
    by = Counter(one["by"] for one in planted.actions() if one["action"] == "redrive")
    assert by.keys() == {"zoe", "bob"} and by.total() == LETTERS


def test_it_looks_for_its_traces_where_it_sends_to_whatever_a_producer_wrote(
    plant_letters: PlantLetters,
) -> None:
    planted = plant_letters(from_elsewhere=True)
    redrive_id = cut(planted, "in the middle of a write")
    go_on(planted, redrive_id)
    sent = planted.sent(redrive_id)
    assert (len(sent), set(sent.values())) == (LETTERS, {1})


def test_kafka_away_stops_it_and_says_how_to_go_on(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(writer: KafkaWriter, records: list[Outgoing]) -> list[KafkaUnavailable | None]:
        WRITE(writer, records[:HALF])
        return [*[None] * HALF, *[NotAcknowledged("away")] * (len(records) - HALF)]

    monkeypatch.setattr(KafkaWriter, "write", away)
    with pytest.raises(NotAvailable, match="redrive --resume"):
        begin(
            planted.settings,
            RedrivePlan(LetterFilter()),
            by="zoe",
            because=None,
            pace=RedrivePace(RATE),
        )
    monkeypatch.setattr(KafkaWriter, "write", WRITE)
    stands = planted.redrive()
    assert (stands.state, stands.owner) == ("running", None)
    go_on(planted, stands.redrive_id)
    sent = planted.sent(stands.redrive_id)
    assert (len(sent), set(sent.values())) == (LETTERS, {1})


def test_a_redrive_that_lives_elsewhere_is_left_to_it(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    redrive_id = cut(planted, "after a reopening")
    monkeypatch.setattr("consumer.dlq.unfinished.is_gone", lambda owner: False)
    pace = RedrivePace()
    pace.stopping.set()
    with pytest.raises(NotResumed, match="goes on in the process"):
        resume(planted.settings, redrive_id, by="bob", because=None, pace=pace)
    with pytest.raises(NotResumed, match="there is no redrive"):
        go_on(planted, "nobody's")


def test_a_real_kill_a_signal_and_a_cancel_leave_it_to_be_resumed(planted: Planted) -> None:
    def started(*arguments: str) -> StartedDlq:
        return StartedDlq(planted.config, "redrive", *arguments)

    first = started("--yes", "--all", *SLOWLY)
    eventually(planted.redrives, timeout_s=60)
    redrive_id = planted.redrive().redrive_id
    eventually(lambda: planted.sent(redrive_id), timeout_s=60)
    first.send(signal.SIGKILL)
    assert first.ended()[0] == -signal.SIGKILL
    before = sum(planted.sent(redrive_id).values())
    assert 0 < before < LETTERS

    second = started("--resume", redrive_id, *SLOWLY)
    eventually(lambda: sum(planted.sent(redrive_id).values()) > before, timeout_s=60)
    second.send(signal.SIGINT)
    code, said, _ = second.ended()
    assert code == 5
    assert f"onceward-dlq redrive --resume {redrive_id}" in said
    # It stopped within a page: its letters are counted all the same.
    assert planted.redrive().all_counts["sent"] == sum(planted.sent(redrive_id).values())

    third = started("--resume", redrive_id, *SLOWLY)
    eventually(lambda: planted.redrive().owner is not None, timeout_s=60)
    assert started("--cancel", redrive_id).ended()[0] == 0
    assert (third.ended()[0], planted.redrive().state) == (1, "cancelled")

    assert started("--resume", redrive_id).ended()[0] == 0
    sent = planted.sent(redrive_id)
    assert (len(sent), set(sent.values())) == (LETTERS, {1})
