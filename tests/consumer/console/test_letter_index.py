"""The table of dead letters: each is read once, and goes when Kafka has deleted it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from consumer.console.letter_index import LetterIndex, LetterView
from consumer.dlq.filter import Filter
from consumer.dlq.letter import Dialect, Failure, Letter, Original
from consumer.dlq.letter_state import LetterState
from consumer.dlq.reading import LetterPage
from feedback.kafka.scan import OffsetSpan
from feedback.kafka.values import Partition
from feedback.records.envelope import Record

DLQ = "pay.g.dlq"
AT = 1_700_000_000_000


class Box:
    """Letters of one topic, as a reader yields them, and the states of their requests.

    Attributes:
        passed: the offsets that were read, of all refreshes.
    """

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.begin = 0
        self.states: dict[str, LetterState] = {}
        self.passed: list[int] = []

    def put(self, request_id: str, attempts: int | None = 1, **failure: Any) -> None:
        """Write a letter."""
        place = (DLQ, 0, self.begin + len(self.letters), AT)
        facts = Failure(original=Original("pay"), attempts=attempts, failed_at=AT, **failure)
        self.letters.append(
            Letter(Record(*place, None, None, ()), Dialect.ONCEWARD, request_id, facts, None)
        )

    def delete(self, count: int) -> None:
        """Delete the first letters, as retention does."""
        self.letters = self.letters[count:]
        self.begin += count

    # as a reader ---------------------------------------------------------------------------

    def spans(self, *, since_ms: int | None = None) -> dict[Partition, OffsetSpan]:
        """Return the offsets that can be read now."""
        return {(DLQ, 0): OffsetSpan(self.begin, self.begin + len(self.letters))}

    def pages(self, spans: Mapping[Partition, OffsetSpan]) -> Iterator[LetterPage]:
        """Yield a page for each letter."""
        for one in self.letters:
            at = one.record.offset
            if spans[DLQ, 0].begin <= at < spans[DLQ, 0].end:
                self.passed.append(at)
                yield LetterPage([one], {(DLQ, 0): at + 1}, 0, 0)

    # as the journal ------------------------------------------------------------------------

    def of(self, letters: Sequence[Letter]) -> list[LetterState]:
        """Return the state of each."""
        return [self.states.get(one.request_id, LetterState.OPEN) for one in letters]


class Table:
    """An index over a box."""

    def __init__(self, box: Any) -> None:
        self.box = box
        self.index = LetterIndex()

    def view(self, **chosen: str) -> LetterView:
        """Return the letters after a refresh."""
        self.index.refresh(self.box, self.box)
        return self.index.view(chosen, most=10, bars=10)

    def names(self, **chosen: str) -> list[str]:
        """Return the ids that are listed."""
        return sorted(one.request_id for one in self.view(**chosen).newest)


@pytest.fixture
def table() -> Iterator[Table]:
    made = Table(Box())
    yield made
    made.index.close()


def test_letters_are_read_once_and_their_states_again_until_they_are_settled(table: Table) -> None:
    box = table.box
    for name in "abc":
        box.put(name, reason="BANK")
    assert table.names() == ["a", "b", "c"]
    box.states = {"a": LetterState.RUNNING, "b": LetterState.REPAIRED}
    view = table.view()
    assert view.states == {"open": 1, "running": 1, "repaired": 1}
    assert (view.shown, [one.request_id for one in view.newest]) == (1, ["c"])
    box.states = {"b": LetterState.OPEN}  # which never happens to what is settled
    box.put("d")
    assert table.names() == ["a", "c", "d"]
    assert box.passed == [0, 1, 2, 3]


def test_a_letter_that_was_written_twice_is_one_and_goes_with_its_last_copy(table: Table) -> None:
    box = table.box
    for name in ("a", "b", "a"):
        box.put(name)
    box.put("a", attempts=2)
    box.put("foreign", attempts=None)
    assert table.names() == ["a", "a", "b", "foreign"]
    box.delete(1)
    assert table.names() == ["a", "a", "b", "foreign"]
    box.delete(2)
    assert table.names() == ["a", "foreign"]
    box.delete(2)
    assert table.view().shown == 0


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(table: Table) -> None:
    for name in "abc":
        table.box.put(name)
    table.view()
    table.box.letters.clear()
    table.box.put("new")
    assert table.names() == ["new"]


def test_an_exception_is_chosen_as_a_redrive_chooses_it(table: Table) -> None:
    classes = ("TimeoutError", "bank.TimeoutError", "bank.api.TimeoutError", "MyTimeoutError")
    for number, name in enumerate(classes):
        table.box.put(f"request-{number}", exception_class=name)
    for asked in ("TimeoutError", "bank.TimeoutError", "api.TimeoutError", "%Error"):
        chosen = Filter(classes=frozenset({asked}))
        taken = sum(chosen.takes(one) for one in table.box.letters)
        assert table.view(exception=asked).shown == taken, asked
    assert table.view(exception="TimeoutError").shown == 3


def test_conditions_choose_and_the_counts_are_of_the_chosen(table: Table) -> None:
    box = table.box
    box.put("a", reason="BANK", exception_class="Down", exception_message="charge 17 failed")
    box.put("b", reason="BANK", exception_class="Late", exception_message="charge 18 failed")
    box.put("c", reason="\udcff' OR 1=1 --", exception_message="\x00\u202e")
    assert table.names(reason="BANK") == ["a", "b"]
    assert table.names(reason="BANK", exception="Late") == ["b"]
    assert table.names(exception="") == ["c"]
    view = table.view(message="charge # failed")
    assert (view.shown, view.groups["exception"]) == (2, [("Down", 1), ("Late", 1)])
    assert view.groups["message"] == [("charge # failed", 2)]
    assert sum(one.letters for one in view.bars) == 2
    assert table.names(reason="' OR 1=1 --") == []
    (odd,) = (name for name, _ in table.view().groups["reason"] if name != "BANK")
    assert table.names(reason=odd) == ["c"]
