"""The dead letters of a group in a table on disk, read from Kafka once each.

Kafka has no index: to count 100,000 letters is to read them all. The table remembers how far it has
read, so that a refresh reads the new ones alone.

To ask the journal for the states of 100,000 letters takes seconds. So a refresh asks for those that
are new, of requests that runs or people have changed since (`consumer.journal.appended`), in a
state that goes on by itself, or among the newest. A change without a mark, such as a row that was
pruned, is found by going round: each refresh asks for `ROUND` letters more, until all had a turn.

The table is a temporary one of this process; if that dies, the next process begins anew.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from consumer.console.letter_choice import CONDITIONS, LetterChoice
from consumer.dlq.dates import DateRange
from consumer.dlq.letter import Dialect, Failure, Letter
from consumer.dlq.letter_reader import LetterReader
from consumer.dlq.letter_state import UNSETTLED, LetterStanding, LetterState, LetterStates
from consumer.dlq.tally import Histogram, HistogramBar, message_kind
from consumer.journal.appended import AppendMark
from feedback.kafka.scan import OffsetSpans, resumed
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.records.failure_headers import DLQ_REDRIVE_ID

# Python keeps the memory of the largest reading: four times as much of both took 4 MiB more.
CACHE_KIB = 512
STATES_AT_ONCE = 250
# Letters of which a refresh asks in their turn, and the newest, of which it always asks.
ROUND = 2000
NEWEST = 200
MOST_OF_A_GROUP = 10
MESSAGE_CHARS = 400
MINUTE_MS = 60_000
# Nothing follows these: a newer failure of the request has a letter of its own.
SETTLED = (LetterState.REPAIRED, LetterState.EXPIRED, LetterState.OLDER)
# They change by themselves: a run ends, a deadline is over.
GOES_ON = (LetterState.RUNNING, LetterState.UNSENT, LetterState.IN_DOUBT)

_COLUMNS = ", ".join(CONDITIONS.values())
# A refresh looks at the changes since so many refreshes before.
MARKS = 2
# Whether a refresh asks for a letter, whatever else holds.
_IS_KNOWN, _IS_NEW, _MAY_BEGIN = range(3)
_TABLE = """
CREATE TABLE letter (
    request_id TEXT, attempts INT, writing TEXT, dlq TEXT, partition INT, "offset" INT, topic TEXT,
    dialect TEXT, reason TEXT, class TEXT, message TEXT, kind TEXT, failed_at INT, failed_in TEXT,
    sent_by TEXT, state TEXT, ours TEXT, asks INT,
    PRIMARY KEY (request_id, attempts, writing)
) WITHOUT ROWID"""
# The letters of which a refresh asks.
_WANTED = """
CREATE TABLE wanted (
    request_id TEXT, attempts INT, writing TEXT, PRIMARY KEY (request_id, attempts, writing)
) WITHOUT ROWID"""
# The letters of a view, counted by all conditions at once.
_TALLY = f"CREATE TABLE tally ({_COLUMNS}, letters INT, oldest_ms INT, newest_ms INT)"
_INDEXES = (
    # All that is counted: so a view reads neither the letters nor their messages.
    f"CREATE INDEX by_time ON letter (state, failed_at, {_COLUMNS})",
    'CREATE INDEX by_place ON letter (dlq, partition, "offset")',
    f"CREATE INDEX by_asks ON letter (asks) WHERE asks <> {_IS_KNOWN}",
)
# A letter that was written twice is one, and goes with its last copy.
_INSERT = f"""
INSERT INTO letter VALUES ({", ".join("?" * 18)}) ON CONFLICT DO UPDATE SET
    dlq = excluded.dlq, partition = excluded.partition, "offset" = excluded."offset",
    asks = excluded.asks
"""


class IndexedLetter(NamedTuple):
    """A letter without its large parts; `ours` is that of `LetterStanding`."""

    request_id: str
    attempts: int
    topic: str
    dialect: str
    reason: str
    exception: str
    message: str
    failed_at: int
    state: str
    ours: str | None


@dataclass(frozen=True, slots=True)
class LetterView:
    """The letters that conditions choose.

    Attributes:
        states: of all of them, by name.
        shown: how many may need a decision; all below is of these.
        groups: by the name of a condition: values and counts, the largest first.
        others: by the name of a condition: how many further values there are.
    """

    states: dict[str, int]
    shown: int
    oldest_ms: int | None
    newest_ms: int | None
    groups: dict[str, list[tuple[str, int]]]
    others: dict[str, int]
    bars: list[HistogramBar]
    newest: list[IndexedLetter]


@dataclass
class LetterIndex:
    """The table; one thread refreshes it, any thread looks.

    Attributes:
        group: whose journal says the states.
        positions: the next offset to read of each partition.
        topic_ids: of the topics that were read: the same offsets of another one are new letters.
        version: a higher number with each change of the table.
    """

    group: str
    positions: dict[Partition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    version: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        pragmas = (f"PRAGMA cache_size = -{CACHE_KIB}", "PRAGMA synchronous = OFF")
        for statement in (*pragmas, _TABLE, _WANTED, _TALLY, *_INDEXES):
            self._database.execute(statement)
        # Of the last refreshes: a transaction that ends late may have the lower number.
        self._marks: list[AppendMark] = []
        self._has_lost_commits = False
        self._behind = _FIRST

    def refresh(self, reader: LetterReader, states: LetterStates) -> None:
        """Read the letters since the last time, and the states of those that may change.

        Raises:
            NotAvailable: Kafka or the journal is away; a later refresh goes on from there.
        """
        # Before anything is read: a change meanwhile is found by the next refresh.
        mark = states.append_mark()
        spans = reader.spans()
        self._forget(spans, reader.topic_ids)
        for page in reader.pages(resumed(spans, self.positions)):
            self._write(_INSERT, (_columns(one, self.group) for one in page.letters))
            self.positions |= page.positions
        if self._marks and not _is_behind(mark, self._marks[-1]):
            # An earlier reading of the journal does not count, and a settled letter may be open.
            self._marks, self._has_lost_commits = [], True
        known = len(self._marks) == MARKS
        changed = states.changed_between(self._marks[0], mark) if known else None
        turn = self._want(changed, states.unsent())
        for names, stood, letters in self._wanted():
            found = zip(states.of(letters), stood, names, strict=True)
            # Of many letters few change: a write for each would cost as much as the journal's look.
            changes = [
                (*now, *name)
                for one, before, name in found
                if (now := _stands(one, before[-1])) != before
            ]
            if changes:
                self._write(_UPDATE, changes)
        self._marks = [*self._marks[1 - MARKS :], mark]
        self._has_lost_commits = False
        self._behind = turn

    def count(self) -> int:
        """Return how many letters may need a decision."""
        with self._lock:
            (count,) = self._database.execute(
                f"SELECT count(*) FROM letter WHERE state IN ({_UNSETTLED})"
            ).fetchone()
        return int(count)

    def view(self, choice: LetterChoice, *, most: int, bars: int) -> LetterView:
        """Return the letters of a choice.

        Args:
            most: list so many of the newest.
            bars: so many at most, of the letters in time.
        """
        conditions = [_condition(*one) for one in choice.conditions]
        where = " AND ".join([*conditions, *_bounds(choice.stretch)] or ["1"])
        given: dict[str, Any] = dict(choice.conditions) | choice.stretch._asdict()
        shown = f"state IN ({_UNSETTLED}) AND {where}"
        with self._lock:
            ask = self._database.execute
            states = dict(
                ask(f"SELECT state, count(*) FROM letter WHERE {where} GROUP BY 1", given)
            )
            ask("DELETE FROM tally")
            ask(
                f"INSERT INTO tally SELECT {_COLUMNS}, count(*), min(failed_at), max(failed_at) "
                f"FROM letter WHERE {shown} GROUP BY {_COLUMNS}",
                given,
            )
            count, oldest_ms, newest_ms = ask(
                "SELECT coalesce(sum(letters), 0), min(oldest_ms), max(newest_ms) FROM tally"
            ).fetchone()
            counted = {
                name: ask(
                    f"SELECT {column}, sum(letters), count(*) OVER () FROM tally "
                    f"GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MOST_OF_A_GROUP}"
                ).fetchall()
                for name, column in CONDITIONS.items()
            }
            minutes = ask(
                f"SELECT failed_at / {MINUTE_MS}, count(*) FROM letter WHERE {shown} GROUP BY 1",
                given,
            ).fetchall()
            newest = ask(
                "SELECT request_id, attempts, topic, dialect, reason, class, message, failed_at, "
                f"state, ours FROM letter WHERE {shown} ORDER BY failed_at DESC LIMIT :most",
                {**given, "most": most},
            ).fetchall()
        times = Histogram()
        for minute, letters in minutes:
            times.add(minute * MINUTE_MS, letters)
        return LetterView(
            states=states,
            shown=count,
            oldest_ms=oldest_ms,
            newest_ms=newest_ms,
            groups={name: [row[:2] for row in rows] for name, rows in counted.items()},
            others={name: rows[0][2] - len(rows) if rows else 0 for name, rows in counted.items()},
            bars=times.bars(bars),
            newest=[IndexedLetter(*one) for one in newest],
        )

    def close(self) -> None:
        """Forget all."""
        with self._lock:
            self._database.close()

    def _forget(self, spans: OffsetSpans, topic_ids: Mapping[str, str]) -> None:
        """Delete the letters that Kafka has deleted, and those of topics that were made anew."""
        known = {name: one for name, one in topic_ids.items() if one}
        anew = {name for name, one in known.items() if self.topic_ids.get(name, one) != one}
        for place, position in [*self.positions.items()]:
            span = spans.get(place)
            # A topic without an id is another one for certain where it has fewer records.
            if span is None or position > span.end or place[0] in anew:
                del self.positions[place]
                self._write(_DELETE, [(*place, 2**62)])
            else:
                self._write(_DELETE, [(*place, span.begin)])
        self.topic_ids |= known

    def _want(self, changed: Collection[str] | None, unsent: Collection[str]) -> _Name:
        """Note of which letters this refresh asks.

        Args:
            changed: by their requests; None where any may be.

        Returns:
            The name behind which the next turn begins.
        """
        with self._lock, self._database:
            ask = self._database.execute
            ask("BEGIN")
            ask("DELETE FROM wanted")
            if changed is None:
                ask(f"{_WANT} WHERE asks <> {_IS_KNOWN}")
                if self._has_lost_commits:
                    ask(_WANT)
                else:
                    ask(f"{_WANT} WHERE state NOT IN ({_SETTLED})")
                return _FIRST
            # Sent back, it may get a row by a first run, which leaves no mark.
            self._database.executemany(
                f"UPDATE letter SET asks = {_MAY_BEGIN} WHERE request_id = ? AND state = ?",
                ((name, LetterState.UNKNOWN.value) for name in changed),
            )
            ask(f"{_WANT} WHERE asks <> {_IS_KNOWN}")
            ask(f"{_WANT} WHERE state IN ({_named(GOES_ON)})")
            for state in UNSETTLED:
                ask(f"{_WANT} WHERE state = ? ORDER BY failed_at DESC LIMIT {NEWEST}", [state])
            self._database.executemany(
                f"{_WANT} WHERE request_id = ? AND state NOT IN ({_SETTLED})",
                ((name,) for name in {*changed, *unsent}),
            )
            turn = ask(
                f"SELECT request_id, attempts, writing FROM letter WHERE state NOT IN ({_SETTLED}) "
                f"AND (request_id, attempts, writing) > (?, ?, ?) ORDER BY 1, 2, 3 LIMIT {ROUND}",
                self._behind,
            ).fetchall()
            self._database.executemany("INSERT OR IGNORE INTO wanted VALUES (?, ?, ?)", turn)
        return turn[-1] if len(turn) == ROUND else _FIRST

    def _wanted(self) -> Iterator[tuple[list[_Name], list[_Stood], list[Letter]]]:
        """Yield the letters that are asked of: their names, and how they stood before."""
        behind = _FIRST
        while True:
            with self._lock:
                rows = self._database.execute(
                    "SELECT request_id, attempts, writing, dlq, dialect, failed_at, failed_in, "
                    "sent_by, state, ours, asks "
                    "FROM wanted CROSS JOIN letter USING (request_id, attempts, writing) "
                    "WHERE (request_id, attempts, writing) > (?, ?, ?) "
                    f"ORDER BY 1, 2, 3 LIMIT {STATES_AT_ONCE}",
                    behind,
                ).fetchall()
            if not rows:
                return
            behind = rows[-1][:3]
            letters = [_letter(*row[:2], *row[3:-3]) for row in rows]
            yield [row[:3] for row in rows], [row[-3:] for row in rows], letters

    def _write(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        # Left by an error it is rolled back, else committed.
        with self._lock, self._database:
            self._database.execute("BEGIN")
            written = self._database.executemany(statement, rows).rowcount
            self.version += written > 0


def _is_behind(mark: AppendMark, earlier: AppendMark) -> bool:
    """Whether a mark is one of the same journal, later or the same.

    >>> [_is_behind(AppendMark(*now), AppendMark(4, 4)) for now in ((4, 5), (5, 3))]
    [True, False]
    """
    return all(now >= before for now, before in zip(mark, earlier, strict=True))


def _stands(found: LetterStanding, asked: int) -> _Stood:
    may_begin = asked == _MAY_BEGIN and found.state is LetterState.UNKNOWN
    return found.state.value, found.ours, _MAY_BEGIN if may_begin else _IS_KNOWN


def _named(states: Collection[LetterState]) -> str:
    return ", ".join(f"'{one.value}'" for one in sorted(states))


# Request id, attempts and writing.
_Name = tuple[str, int, str]
# Behind it are all.
_FIRST: _Name = ("", -2, "")
# State and `ours`, and whether the next refresh asks for it.
_Stood = tuple[str, str | None, int]
_SETTLED, _UNSETTLED = _named(SETTLED), _named(UNSETTLED)
_WANT = "INSERT OR IGNORE INTO wanted SELECT request_id, attempts, writing FROM letter"
_UPDATE = (
    "UPDATE letter SET state = ?, ours = ?, asks = ? "
    "WHERE request_id = ? AND attempts = ? AND writing = ?"
)
_DELETE = 'DELETE FROM letter WHERE dlq = ? AND partition = ? AND "offset" < ?'
# Of a letter that counts no attempts.
_UNCOUNTED = -1


def _condition(name: str, value: str) -> str:
    """Return the condition in SQL: it takes as the filter of a redrive takes."""
    alike = f"{CONDITIONS[name]} = :{name}"
    if name != "exception" or not value or "." in value:
        return alike
    # As `LetterFilter.takes` has it: the class of any package.
    return f"({alike} OR substr(class, -1 - length(:{name})) = '.' || :{name})"


def _bounds(stretch: DateRange) -> Iterator[str]:
    """Yield the bounds in SQL, as `LetterFilter.takes` has them."""
    if stretch.since_ms is not None:
        yield "failed_at >= :since_ms"
    if stretch.until_ms is not None:
        yield "failed_at < :until_ms"


def _columns(letter: Letter, group: str) -> tuple[Any, ...]:
    failure, record = letter.failure, letter.record
    message = (failure.exception_message or "")[:MESSAGE_CHARS]
    return (
        _text(letter.request_id),
        _UNCOUNTED if failure.attempts is None else failure.attempts,
        _text(letter.writing_for(group)),
        record.topic,
        record.partition,
        record.offset,
        _text(letter.topic),
        letter.dialect.value,
        _text(failure.reason),
        _text(failure.exception_class),
        _text(message),
        _text(message_kind(failure.exception_message)),
        letter.failed_at,
        None if failure.group is None else _text(failure.group),
        None if letter.sent_by is None else _text(letter.sent_by),
        LetterState.UNKNOWN.value,
        None,
        _IS_NEW,
    )


def _text(foreign: str | None) -> str:
    """Return a text that SQLite takes: headers may hold bytes that are not UTF-8."""
    return (foreign or "").encode("utf-8", "replace").decode()


def _letter(
    request_id: str,
    attempts: int,
    dlq: str,
    dialect: str,
    failed_at: int,
    failed_in: str | None,
    sent_by: str | None,
) -> Letter:
    """Return as much of a letter as its state is decided by."""
    counted = None if attempts == _UNCOUNTED else attempts
    failure = Failure(attempts=counted, failed_at=failed_at, group=failed_in)
    headers = () if sent_by is None else ((DLQ_REDRIVE_ID, sent_by.encode()),)
    record = Record(dlq, 0, 0, 0, None, None, headers)
    return Letter(record, Dialect(dialect), request_id, failure, None)
