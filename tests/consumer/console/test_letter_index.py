"""The table of dead letters: each is read once, and goes when Kafka has deleted it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from consumer.console.letter_choice import LetterChoice
from consumer.console.letter_index import LetterIndex, LetterView
from consumer.dlq.dates import WHENEVER, DateRange
from consumer.dlq.filter import LetterFilter
from consumer.dlq.letter import Dialect, Failure, Letter, Original
from consumer.dlq.letter_reader import LetterPage
from consumer.dlq.letter_state import LetterStanding, LetterState
from consumer.journal.appended import AppendMark
from feedback.errors import NotAvailable
from feedback.kafka.scan import OffsetSpan
from feedback.kafka.values import Partition
from feedback.records.envelope import Headers, Record
from feedback.records.failure_headers import DLQ_REDRIVE_ID

DLQ = "pay.g.dlq"
AT = 1_700_000_000_000


class Box:
    """Letters of one topic, as a reader yields them, and the states of their requests.

    Attributes:
        passed: the offsets that were read, of all refreshes.
        asked: the letters whose states were asked for, of all refreshes.
        changed: the requests that were changed, by the mark before it; None: any may be.
        appended: the mark before the first of them.
        topic_ids: Kafka's own, by the names of topics.
    """

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.begin = 0
        self.states: dict[str, LetterState] = {}
        self.passed: list[int] = []
        self.ours: str | None = None
        self.asked: list[Letter] = []
        self.changed: list[str] | None = None
        self.appended = 1000
        self.redriven: list[str] = []
        self.is_away = False
        self.topic_ids = {DLQ: "first"}

    def put(self, request_id: str, attempts: int | None = 1, **failure: Any) -> None:
        """Write a letter."""
        self._put(request_id, attempts, Dialect.ONCEWARD, (), original=Original("pay"), **failure)

    def put_theirs(self, request_id: str, offset: int, *headers: tuple[str, bytes]) -> None:
        """Write a letter of Spring."""
        original = Original("pay", 0, offset)
        self._put(request_id, None, Dialect.SPRING, headers, original=original, group="billing")

    def _put(
        self,
        request_id: str,
        attempts: int | None,
        dialect: Dialect,
        headers: Headers,
        **failure: Any,
    ) -> None:
        place = (DLQ, 0, self.begin + len(self.letters), AT)
        facts = Failure(attempts=attempts, **{"failed_at": AT, **failure})
        record = Record(*place, None, None, tuple(headers))
        self.letters.append(Letter(record, dialect, request_id, facts, None))

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

    def of(self, letters: Sequence[Letter]) -> list[LetterStanding]:
        """Return the state of each."""
        if self.is_away:
            raise NotAvailable("the journal is away")
        self.asked += letters
        states = (self.states.get(one.request_id, LetterState.OPEN) for one in letters)
        return [
            LetterStanding(state, None if one.is_of("g") else self.ours)
            for state, one in zip(states, letters, strict=True)
        ]

    def append_mark(self) -> AppendMark:
        """Return how many requests were changed."""
        return AppendMark(0, len(self.changed or ()) + self.appended)

    def changed_between(self, since: AppendMark, until: AppendMark) -> Sequence[str] | None:
        """Return those behind a mark."""
        if self.changed is None:
            return None
        return self.changed[since.action - self.appended : until.action - self.appended]

    def unsent(self) -> Sequence[str]:
        """Return the requests that a redrive may not have sent."""
        return self.redriven


class Table:
    """An index over a box."""

    def __init__(self, box: Any) -> None:
        self.box = box
        self.index = LetterIndex("g")

    def view(self, stretch: DateRange = WHENEVER, **chosen: str) -> LetterView:
        """Return the letters after a refresh."""
        self.index.refresh(self.box, self.box)
        choice = LetterChoice(tuple(chosen.items()), stretch)
        return self.index.view(choice, most=10, bars=10)

    def asked(self) -> str:
        """Return the ids of which a refresh asks, in their order."""
        self.box.asked.clear()
        self.view()
        return "".join(one.request_id for one in self.box.asked)

    def names(self, stretch: DateRange = WHENEVER, **chosen: str) -> list[str]:
        """Return the ids that are listed."""
        return sorted(one.request_id for one in self.view(stretch, **chosen).newest)


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


def test_a_refresh_writes_the_states_that_have_changed_alone(table: Table) -> None:
    box = table.box
    for name in "abc":
        box.put(name)
    box.put_theirs("d", 7)
    assert table.view().states == {"open": 4}
    written: list[str] = []
    table.index._database.set_trace_callback(
        lambda sql: written.append(sql) if sql.startswith("UPDATE") else None
    )
    assert table.view().states == {"open": 4}
    assert not written
    box.states = {"b": LetterState.RUNNING}
    assert table.view().states == {"open": 3, "running": 1}
    assert len(written) == 1
    box.ours = "FAILED"
    (theirs,) = (one for one in table.view().newest if one.request_id == "d")
    assert theirs.ours == "FAILED"
    assert len(written) == 2
    box.states = {}
    assert table.view().states == {"open": 4}
    assert len(written) == 3


@pytest.fixture
def eight(table: Table, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Return a table of the letters a to h, which the journal was asked of once."""
    monkeypatch.setattr("consumer.console.letter_index.ROUND", 2)
    monkeypatch.setattr("consumer.console.letter_index.NEWEST", 1)
    for number, name in enumerate("abcdefgh"):
        table.box.put(name, failed_at=AT + number)
    table.box.changed = []
    # A change before the first refresh may have a number behind its mark: the second asks again.
    assert [table.asked() for _ in range(2)] == ["abcdefgh"] * 2
    return table


def test_a_refresh_asks_for_the_newest_letter_and_for_all_in_their_turn(eight: Table) -> None:
    assert [eight.asked() for _ in range(6)] == ["abh", "cdh", "efh", "gh", "h", "abh"]
    eight.box.states["e"] = LetterState.REPAIRED  # by what leaves no mark
    assert [eight.view().states.get("repaired", 0) for _ in range(3)] == [0, 1, 1]
    assert [eight.asked() for _ in range(5)] == ["h", "abh", "cdh", "fgh", "h"]


def test_a_refresh_asks_for_letters_that_were_changed_are_new_or_go_on(eight: Table) -> None:
    box = eight.box
    eight.index._behind = ("x", 0, "")
    box.changed += ["c", "nobody"]
    box.states["c"] = LetterState.RUNNING
    box.states["e"] = LetterState.DISCARDED
    assert eight.asked() == "ch"
    eight.index._behind = ("x", 0, "")
    box.put("i", failed_at=AT)
    box.redriven = ["d"]
    assert eight.asked() == "cdhi"
    box.states["c"] = LetterState.REPAIRED
    eight.index._behind = ("x", 0, "")
    assert (eight.asked(), eight.asked()[-2:]) == ("cdh", "dh")
    assert eight.view().states["repaired"] == 1
    # What was changed since is asked of once more: a transaction may end late.
    box.changed += ["e"]
    for asked in ("deh", "deh", "dh"):
        eight.index._behind = ("x", 0, "")
        assert eight.asked() == asked
    assert eight.view().states["discarded"] == 1
    box.appended += len(box.changed)
    box.changed = None  # too many
    assert eight.asked() == "abdefghi"


def test_a_letter_without_a_row_that_was_sent_back_is_asked_of_until_it_has_one(
    eight: Table,
) -> None:
    box = eight.box
    box.states = dict.fromkeys("bc", LetterState.UNKNOWN)
    box.changed = None
    eight.view()
    box.changed = []

    def asked() -> str:
        eight.index._behind = ("x", 0, "")
        return eight.asked()

    # The newest of each state is asked of anyway.
    assert asked() == "ch"
    box.changed += ["b"]
    assert [asked() for _ in range(4)] == ["bch"] * 4
    box.states["b"] = LetterState.RUNNING
    assert [asked() for _ in range(2)] == ["bch"] * 2
    box.states["b"] = LetterState.REPAIRED
    assert [asked() for _ in range(2)] == ["bch", "ch"]


def test_what_changed_before_a_refresh_that_failed_is_asked_of_by_the_next(eight: Table) -> None:
    box = eight.box
    box.changed += ["b"]
    box.put("i")
    box.is_away = True
    for _ in range(3):
        with pytest.raises(NotAvailable):
            eight.view()
    box.is_away = False
    assert eight.asked() == "abhi"


def test_a_table_has_another_version_where_a_letter_has_changed_alone(eight: Table) -> None:
    box = eight.box

    def is_changed() -> bool:
        before = eight.index.version
        eight.view()
        return eight.index.version != before

    assert not is_changed()
    box.put("i")
    assert is_changed() and not is_changed()
    box.states["h"] = LetterState.DISCARDED
    box.changed += ["h"]
    assert is_changed() and not is_changed()
    box.delete(1)
    assert is_changed() and not is_changed()
    assert (eight.index.count(), eight.view().shown) == (7, 7)


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


def test_what_another_system_fails_again_is_a_letter_of_its_own(table: Table) -> None:
    box = table.box
    box.ours = "SUCCEEDED"
    box.states = {"a": LetterState.UNKNOWN}
    box.put("a", attempts=None)
    for _ in range(2):
        box.put_theirs("a", 5)
    box.put_theirs("a", 9, (DLQ_REDRIVE_ID, b"r"))
    view = table.view()
    assert view.states == {"unknown": 3}
    # All that decides the state is there again when it is asked for anew.
    told = {(one.is_of("g"), one.sent_by, one.failed_at) for one in box.asked}
    assert told == {(True, None, AT), (False, None, AT), (False, "r", AT)}
    assert sorted(one.ours or "" for one in view.newest) == ["", "SUCCEEDED", "SUCCEEDED"]


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(table: Table) -> None:
    for name in "abc":
        table.box.put(name)
    table.view()
    table.box.letters.clear()
    table.box.put("new")
    assert table.names() == ["new"]


def test_a_topic_made_anew_is_known_by_its_id_where_it_has_as_many_letters(table: Table) -> None:
    box = table.box
    for name in "abc":
        box.put(name)
    box.states = dict.fromkeys("abc", LetterState.REPAIRED)
    assert table.names() == []
    # A topic of which Kafka does not say the id is not another one for that.
    box.topic_ids = {DLQ: ""}
    assert table.view().states == {"repaired": 3}
    box.letters.clear()
    for name in "defg":
        box.put(name)
    box.topic_ids = {DLQ: "second"}
    assert table.names() == ["d", "e", "f", "g"]
    assert table.view().states == {"open": 4}
    assert box.passed == [0, 1, 2, 0, 1, 2, 3]


def test_an_exception_is_chosen_as_a_redrive_chooses_it(table: Table) -> None:
    classes = ("TimeoutError", "bank.TimeoutError", "bank.api.TimeoutError", "MyTimeoutError")
    for number, name in enumerate(classes):
        table.box.put(f"request-{number}", exception_class=name)
    for asked in ("TimeoutError", "bank.TimeoutError", "api.TimeoutError", "%Error"):
        chosen = LetterFilter(classes=frozenset({asked}))
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


def test_a_stretch_takes_its_first_moment_and_not_its_last_as_a_redrive_does(table: Table) -> None:
    times = (AT - 1, AT, AT + 1, AT + 90_000)
    for at in times:
        table.box.put(f"at {at}", failed_at=at)
    ends = (None, *times, AT + 90_001)
    for stretch in (DateRange(since, until) for since in ends for until in ends):
        chosen = LetterFilter(since_ms=stretch.since_ms, until_ms=stretch.until_ms)
        taken = sorted(one.request_id for one in table.box.letters if chosen.takes(one))
        assert table.names(stretch) == taken, stretch
    assert table.names(DateRange(AT, AT + 90_000)) == [f"at {AT}", f"at {AT + 1}"]


def test_all_that_is_counted_is_of_the_stretch_and_of_the_conditions(table: Table) -> None:
    box = table.box
    for number, reason in enumerate(("BANK", "BANK", "SHOP", "BANK")):
        box.put(f"request-{number}", reason=reason, failed_at=AT + 60_000 * number)
    box.states = {"request-0": LetterState.REPAIRED, "request-1": LetterState.REPAIRED}
    late = DateRange(AT + 60_000, AT + 240_000)
    view = table.view(late)
    assert (view.states, view.shown) == ({"open": 2, "repaired": 1}, 2)
    assert view.groups["reason"] == [("BANK", 1), ("SHOP", 1)]
    assert (view.oldest_ms, view.newest_ms) == (AT + 120_000, AT + 180_000)
    assert sum(one.letters for one in view.bars) == 2
    assert table.names(late, reason="BANK") == ["request-3"]
    assert table.view(DateRange(AT + 240_000)).bars == []


@pytest.mark.parametrize(
    "stretch",
    [DateRange(AT), DateRange(None, AT), DateRange(AT, AT + 1)],
    ids=["since", "until", "both"],
)
def test_letters_of_a_stretch_are_found_by_their_time(table: Table, stretch: DateRange) -> None:
    asked: list[str] = []
    table.box.put("a")
    table.view()
    database = table.index._database
    database.set_trace_callback(asked.append)
    table.index.view(LetterChoice(stretch=stretch), most=10, bars=10)
    database.set_trace_callback(None)
    of_shown = [one for one in asked if "state IN" in one]
    assert len(of_shown) == 3
    for one in of_shown:
        plan = " ".join(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {one}"))
        assert "INDEX by_time (state=? AND failed_at" in plan, (one, plan)
        # The letters themselves are read for the list alone.
        assert ("COVERING INDEX by_time" in plan) == ("message" not in one), (one, plan)


def test_after_lost_commits_all_letters_are_asked_of_what_was_settled_too(eight: Table) -> None:
    box = eight.box
    box.states["c"] = LetterState.REPAIRED
    box.changed += ["c"]
    assert eight.view().states["repaired"] == 1
    box.appended += 400
    eight.view()
    # Of a standby that has more than there was two refreshes ago, and less than at the last.
    box.appended -= 200
    box.states = {}
    box.is_away = True
    with pytest.raises(NotAvailable):
        eight.view()
    box.is_away = False
    assert eight.asked() == "abcdefgh"
    assert eight.view().states == {"open": 8}


def test_a_letter_that_is_written_anew_is_asked_of_though_it_was_settled(eight: Table) -> None:
    box = eight.box
    box.states["e"] = LetterState.REPAIRED
    box.changed += ["e"]
    assert eight.view().states["repaired"] == 1
    box.states = {}
    box.put("e", failed_at=AT + 4)
    assert eight.view().states == {"open": 8}
