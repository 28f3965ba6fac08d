"""All that is known of one request: its letters, its journal row, and the status in Redis."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from consumer.dlq.filter import Filter
from consumer.dlq.letter import Letter
from consumer.dlq.letter_state import LetterState, state_of
from consumer.dlq.listing import Advance
from consumer.dlq.options import Given
from consumer.dlq.reading import LetterReader
from consumer.journal.actions import Action
from consumer.journal.lookup import Lookup, PastRun
from consumer.journal.records import Row
from feedback.errors import RedisUnavailable
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.statuses import Status

# A request that fails again and again has many letters: the last say enough.
MOST_LETTERS = 20


@dataclass(frozen=True, slots=True)
class RequestReport:
    """All that is known of one request.

    Attributes:
        letters: the last ones, the newest of them last; each once.
        state: the state of the last letter; None without one.
        row: None where the journal has nothing.
        runs: those before the row's.
        status: the status that a client sees; None where Redis is away.
        away: why the status is not known.
    """

    request_id: str
    letters: list[Letter]
    state: LetterState | None
    row: Row | None
    runs: list[PastRun]
    actions: list[Action]
    status: Status | None
    away: str | None

    @property
    def is_known(self) -> bool:
        """Whether there is a letter or a row."""
        return bool(self.letters) or self.row is not None


def report_of(
    settings: Settings, request_id: str, given: Given, *, advance: Advance
) -> RequestReport:
    """Return all that is known of a request.

    Args:
        given: where to look for letters.
        advance: called with the number of records read, and their total.

    Raises:
        NotAvailable: Kafka or the journal is away, or a topic does not exist.
    """
    with Lookup.from_settings(settings) as lookup:
        rows, now = lookup.rows([request_id])
        row = rows.get(request_id)
        runs = lookup.runs(request_id)
        actions = lookup.actions([request_id]).get(request_id, [])
    letters = _letters(settings, request_id, given, _failed_since(row, runs), advance=advance)
    state = state_of(letters[-1], row, actions, now=now) if letters else None
    status, away = _status(settings, request_id)
    return RequestReport(request_id, letters, state, row, runs, actions, status, away)


def _letters(
    settings: Settings,
    request_id: str,
    given: Given,
    since_ms: int | None,
    *,
    advance: Advance,
) -> list[Letter]:
    with LetterReader(settings.kafka, topics=given.topics, dlqs=given.dlqs) as reader:
        found = list(_matching(reader, request_id, since_ms, advance))
        if not found and since_ms is not None:
            # The clocks may be further apart than `CLOCKS_APART_MS`.
            found = list(_matching(reader, request_id, None, advance))
    return found


def _matching(
    reader: LetterReader, request_id: str, since_ms: int | None, advance: Advance
) -> Iterator[Letter]:
    wanted = Filter(ids=frozenset([request_id]))
    last: deque[Letter] = deque(maxlen=MOST_LETTERS)
    for page in reader.pages(reader.spans(since_ms=since_ms)):
        met = {one.failure.attempts for one in last}
        for one in page.letters:
            if wanted.takes(one) and one.failure.attempts not in met:
                met.add(one.failure.attempts)
                last.append(one)
        advance(page.read, page.total)
    yield from sorted(last, key=lambda one: one.failed_at)


def _failed_since(row: Row | None, runs: list[PastRun]) -> int | None:
    """Return the end of the request's first run: no letter is older."""
    ends = [one.ended_at for one in runs if one.ended_at is not None]
    if row is not None and row.finished_at is not None:
        ends.append(row.finished_at)
    return min(ends, default=None)


def _status(settings: Settings, request_id: str) -> tuple[Status | None, str | None]:
    redis = connect(settings.redis)
    try:
        store = StatusStore(redis, settings.kafka.group, settings.redis)
        (status,) = store.read_many([request_id])
    except RedisUnavailable as error:
        return None, str(error)
    finally:
        redis.close()
    return status, None
