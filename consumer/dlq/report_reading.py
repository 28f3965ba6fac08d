"""Reads all that is known of one request: Kafka's letters, the journal, Redis."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

from consumer.dlq.filter import LetterFilter
from consumer.dlq.letter import Letter
from consumer.dlq.letter_reader import LetterReader
from consumer.dlq.letter_state import LetterState, state_of
from consumer.dlq.listing import Advance
from consumer.dlq.options import LetterOptions
from consumer.dlq.redrive.record import candidate_of
from consumer.dlq.redrive.unjournaled import verdict_without_journal
from consumer.dlq.report import RequestHolder, RequestReport, holder_of
from consumer.dlq.unfinished import unfinished_of
from consumer.journal.actions import Action
from consumer.journal.lookup import Lookup, PastRun
from consumer.journal.pauses import PauseRow, Pauses
from consumer.journal.records import Row
from consumer.journal.redrive.redrive_rule import Redrivable, RedriveWish, decide
from consumer.journal.redrive.reopening import UnfinishedRedrive
from feedback.clock import epoch_ms
from feedback.errors import KafkaUnavailable, RedisUnavailable
from feedback.records.stored_payload import StoredPayload
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.statuses import Status

# A request that fails again and again has many letters: the last say enough.
MOST_LETTERS = 20


@dataclass(frozen=True, slots=True)
class _InJournal:
    """The journal's facts; empty where it was not asked."""

    row: Row | None = None
    runs: list[PastRun] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    pauses: list[PauseRow] = field(default_factory=list)
    unsent_by: UnfinishedRedrive | None = None
    now: int = 0


@dataclass(frozen=True, slots=True)
class _InRedis:
    """The facts of Redis; `away` says why there are none."""

    status: Status | None = None
    payload: StoredPayload | None = None
    away: str | None = None


def report_of(
    settings: Settings,
    request_id: str,
    given: LetterOptions,
    *,
    ask_journal: bool = True,
    ask_kafka: bool = True,
    advance: Advance,
) -> RequestReport:
    """Return all that is known of a request.

    Args:
        ask_journal: whether the journal is asked; a request of another system has no row there.
        ask_kafka: whether its letters are looked for, which may be to read very many.

    Raises:
        NotAvailable: the journal is away, or a topic does not exist.
    """
    of = _in_journal(settings, request_id) if ask_journal else _InJournal()
    now = of.now or epoch_ms()
    letters, letters_away = (
        _letters_or_why(settings, request_id, of, given, advance=advance)
        if ask_kafka
        else ([], "they were not looked for")
    )
    last = letters[-1] if letters else None
    group = settings.kafka.group
    with closing(connect(settings.redis)) as redis:
        store = StatusStore(redis, group, settings.redis)
        told = _in_redis(store, request_id)
        holder = _holder(settings, store, of.row, told.status, ask_journal=ask_journal)
    report = RequestReport(
        request_id=request_id,
        group=group,
        letters=letters,
        state=None if last is None else _state(last, of, group=group, now=now),
        row=of.row,
        runs=of.runs,
        actions=of.actions,
        status=told.status,
        away=told.away,
        letters_away=letters_away,
        payload=told.payload,
        holder=holder,
        verdict=None if last is None else _verdict(last, of, now=now, ask_journal=ask_journal),
        unsent_by=of.unsent_by,
        dlqs=given.dlqs,
        now=now,
    )
    pause = next((one for one in of.pauses if one.topic == report.topic), None)
    return replace(report, pause=pause)


def _in_journal(settings: Settings, request_id: str) -> _InJournal:
    with Lookup.from_settings(settings) as lookup:
        rows, now = lookup.rows([request_id])
        runs = lookup.runs(request_id)
        actions = lookup.actions([request_id]).get(request_id, [])
    with closing(Pauses.from_settings(settings)) as pauses:
        paused = pauses.paused()
    unsent_by = next((one for one in unfinished_of(settings) if one.has(request_id)), None)
    return _InJournal(rows.get(request_id), runs, actions, paused, unsent_by, now)


def _in_redis(store: StatusStore, request_id: str) -> _InRedis:
    try:
        (status,) = store.read_many([request_id])
        return _InRedis(status, store.kept_payload(request_id))
    except RedisUnavailable as error:
        return _InRedis(away=str(error))


def _holder(
    settings: Settings,
    store: StatusStore,
    row: Row | None,
    status: Status | None,
    *,
    ask_journal: bool,
) -> RequestHolder | None:
    holder = holder_of(row, status)
    if holder is None:
        return None
    if ask_journal:
        with Lookup.from_settings(settings) as lookup:
            lease = lookup.lease(holder.worker_id)
        is_leased = lease is not None and lease.now < lease.until
        holder = replace(holder, lease=lease, is_leased=is_leased)
    try:
        return replace(holder, beats=holder.worker_id in store.alive([holder.worker_id]))
    except RedisUnavailable:
        return holder


def _state(letter: Letter, of: _InJournal, *, group: str, now: int) -> LetterState:
    is_unsent = of.unsent_by is not None and letter.request_id in of.unsent_by.requests
    return state_of(letter, of.row, of.actions, group=group, now=now, is_unsent=is_unsent)


def _verdict(letter: Letter, of: _InJournal, *, now: int, ask_journal: bool) -> Redrivable:
    """Return whether the letter could be sent back, as the rules say it."""
    if letter.home == letter.record.topic:
        return Redrivable.NO_TOPIC
    if not ask_journal:
        return verdict_without_journal(letter)
    return decide(candidate_of(letter), of.row, now, actions=of.actions, wish=RedriveWish(""))


def _letters_or_why(
    settings: Settings, request_id: str, of: _InJournal, given: LetterOptions, *, advance: Advance
) -> tuple[list[Letter], str | None]:
    """Return the letters, and why they are not known."""
    # A reader of the group's own letters asks for this one by name, should it be hidden.
    read = () if of.row is None or given.topics or given.dlqs else (of.row.topic,)
    reader = LetterReader(settings.kafka, topics=given.topics, dlqs=given.dlqs, read=read)
    since_ms = _failed_since(of.row, of.runs)
    try:
        group = settings.kafka.group
        return _letters(reader, request_id, since_ms, group=group, advance=advance), None
    except KafkaUnavailable as error:
        return [], str(error)


def _letters(
    reader: LetterReader, request_id: str, since_ms: int | None, *, group: str, advance: Advance
) -> list[Letter]:
    with reader:
        found = list(_matching(reader, request_id, since_ms, group, advance))
        if not found and since_ms is not None:
            # The clocks may be further apart than `CLOCKS_APART_MS`.
            found = list(_matching(reader, request_id, None, group, advance))
    return found


def _matching(
    reader: LetterReader, request_id: str, since_ms: int | None, group: str, advance: Advance
) -> Iterator[Letter]:
    wanted = LetterFilter(ids=frozenset([request_id]))
    last: deque[Letter] = deque(maxlen=MOST_LETTERS)
    for page in reader.pages(reader.spans(since_ms=since_ms)):
        met = {(one.failure.attempts, one.writing_for(group)) for one in last}
        for one in page.letters:
            name = (one.failure.attempts, one.writing_for(group))
            if wanted.takes(one) and name not in met:
                met.add(name)
                last.append(one)
        advance(page.read, page.total)
    yield from sorted(last, key=lambda one: one.failed_at)


def _failed_since(row: Row | None, runs: list[PastRun]) -> int | None:
    """Return the end of the request's first run: no letter is older."""
    ends = [one.ended_at for one in runs if one.ended_at is not None]
    if row is not None and row.finished_at is not None:
        ends.append(row.finished_at)
    return min(ends, default=None)
