"""Begins, resumes and rehearses redrives, with all connections that they need."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace

from consumer.dlq.letter import Letter
from consumer.dlq.letter_reader import journaled_letters
from consumer.dlq.list_hints import MOST_ASKED, asked_anew
from consumer.dlq.redrive.batch_sender import opened_statuses
from consumer.dlq.redrive.loop import (
    RedriveConnections,
    RedriveLoop,
    RedrivePace,
    rest_of,
    spans_left,
)
from consumer.dlq.redrive.progress import CHOSEN, READ, SENT, NamedResults, PageUnderWay
from consumer.dlq.redrive.record import SentScan, candidate_of, mark_of
from consumer.dlq.redrive.redrive_plan import RedrivePlan
from consumer.dlq.redrive.risks import RedriveRisks
from consumer.dlq.unfinished import is_at_work, new_owner
from consumer.journal.errors import JournalMoved
from consumer.journal.redrive.later_requests import NOTHING_LATER, NamedLater
from consumer.journal.redrive.redrive_row import CANCELLED, DONE, RUNNING, Redrive, RedriveStopped
from consumer.journal.redrive.redrive_work import RedriveWork
from consumer.journal.redrive.reopening import TO_SEND
from feedback.errors import ExitCode, NotAvailable, OncewardError
from feedback.kafka.scan import KafkaScan, OffsetSpans
from feedback.kafka.writer import KafkaWriter
from feedback.records.envelope import new_request_id
from feedback.settings.settings import Settings

STOPPED, REHEARSED = "stopped", "rehearsed"
ASK_AGAIN_S = 0.5
# A person is shown so many of the letters that would be sent.
MOST_SHOWN = 20


class NotResumed(OncewardError):
    """There is no such redrive to resume, or another process runs it."""

    exit_code = ExitCode.BAD_ANSWER
    entry = "error-notresumed"


@dataclass(frozen=True, slots=True)
class RedriveEnding:
    """The result of a redrive.

    Attributes:
        state: done, stopped, cancelled or rehearsed.
        counts: letters by their results.
        of_named: the results of requests that were named by their ids.
        untold: how many statuses could not be written to Redis.
        refusal: the fault of security for which Redis refused them; empty for an outage.
        is_journaled: whether its progress stands in the journal.
        replaced: the new ids by the old ones, where letters became new requests; not all of very
            many.
        twice: ids of letters that another redrive has sent too, meanwhile; not all of very many.
        later: the requests after the letters that would be sent; None where they were sent.
        seen: of a trial: the spans of the letters that were looked at.
        first: of a trial: the first letters that would be sent.
        marks: of a trial: the sum of `mark_of` of all of them.
        risks: of a trial: those of them that may run twice.
        looked_at: of a trial of `--again`: the moment before it; see `RedrivePlan`.
        is_theirs: whether the letters lie in topics that were named, as of other systems.
        topic_ids: of a trial: those of the topics of `seen`; see `RedrivePlan`.
        left_out: of topics that were deleted and made anew: how many offsets were not read.
    """

    redrive_id: str
    state: str
    counts: dict[str, int]
    of_named: dict[str, str] = field(default_factory=dict)
    untold: int = 0
    refusal: str = ""
    is_journaled: bool = True
    replaced: dict[str, str] = field(default_factory=dict)
    later: NamedLater | None = None
    twice: list[str] = field(default_factory=list)
    twice_count: int = 0
    seen: OffsetSpans | None = None
    first: list[Letter] = field(default_factory=list)
    marks: int = 0
    risks: RedriveRisks = field(default_factory=RedriveRisks)
    looked_at: int | None = None
    is_theirs: bool = False
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_trial(self) -> bool:
        """Whether letters were only counted."""
        return not self.redrive_id


def begin(
    settings: Settings,
    plan: RedrivePlan,
    *,
    by: str,
    because: str | None,
    pace: RedrivePace,
    within: OffsetSpans | None = None,
) -> RedriveEnding:
    """Send back the letters that a plan chooses.

    Args:
        within: only letters in these spans: those that a person was asked about.

    Raises:
        NotAvailable: a server is away; the text says how to go on.
        SettingsError: the settings are wrong.
    """
    with redrive_connections(settings, plan) as connections:
        letters, spans = connections.letters, within
        if spans is None:
            spans = letters.spans(since_ms=plan.filter.since_ms)
            plan = replace(plan, topic_ids=letters.topic_ids)
        redrive_id = new_request_id()
        connections.work.begin(
            redrive_id,
            by=by,
            reason=because,
            filter_text=plan.to_json(),
            spans={place: (span.begin, span.end) for place, span in spans.items()},
        )
        stands = connections.work.find(redrive_id)
        assert stands is not None
        return _run(stands, connections, pace)


def resume(
    settings: Settings,
    redrive_id: str,
    *,
    by: str,
    because: str | None,
    pace: RedrivePace,
    seen: str | None = None,
) -> RedriveEnding:
    """Go on with a redrive that was stopped, cancelled or killed.

    Args:
        by: the person who resumes it, and who is named as the sender from now on.
        because: why; by default the reason that it was begun with.
        seen: how the person has seen it, as `stand_of` says it; None for however it stands.

    Raises:
        NotResumed: there is no such redrive, or another process runs it.
        NotAvailable: a server is away; the text says how to go on.
    """
    with closing(redrives_of(settings)) as work:
        plan = RedrivePlan.from_json(_found(work, redrive_id).filter)
    with redrive_connections(settings, plan) as connections:
        stands = _taken(
            connections.work, redrive_id, pace.stopping, by=by, because=because, seen=seen
        )
        if stands.state == DONE:
            answers = NamedResults(plan.filter.ids, stands.named)
            return RedriveEnding(
                redrive_id,
                DONE,
                stands.counts,
                answers.of_named,
                is_theirs=bool(plan.dlqs),
                left_out=stands.left_out,
            )
        reason = stands.reason if because is None else because
        return _run(stands._replace(by=by, reason=reason), connections, pace)


def stand_of(one: Redrive) -> str:
    """Return in short how a redrive stands: another text once anybody has done anything to it."""
    return f"{one.state} {one.updated_at}"


def asked_anew_since(settings: Settings, redrive_id: str) -> NamedLater:
    """Look for later requests of the keys of the letters that a resume would send now.

    It may be days since somebody was asked. Nothing is changed.

    Raises:
        NotResumed: there is no such redrive.
    """
    with closing(redrives_of(settings)) as work:
        stands = _found(work, redrive_id)
    if stands.state == DONE:
        return NOTHING_LATER
    plan = RedrivePlan.from_json(stands.filter)
    with redrive_connections(settings, plan) as connections:
        return asked_anew(settings, _left_to_send(stands, plan, connections))


def _left_to_send(
    stands: Redrive, plan: RedrivePlan, connections: RedriveConnections
) -> Iterator[str]:
    taken = frozenset(stands.unconfirmed)
    sent = connections.sent_scan.sent(stands.redrive_id, stands.marks) if taken else set()
    wish = plan.wish(stands.redrive_id, taken - sent, began_at=stands.started_at)
    for page in connections.letters.pages(rest_of(stands, plan, connections.letters).spans):
        chosen = [one for one in page.letters if plan.filter.takes(one)]
        judged = connections.work.judge([candidate_of(one) for one in chosen], wish)
        for one, found in zip(chosen, judged, strict=True):
            if found.kind in TO_SEND and plan.fault_of(one, connections.topics) is None:
                yield one.request_id


def rehearse(
    settings: Settings, plan: RedrivePlan, *, pace: RedrivePace, within: OffsetSpans | None = None
) -> RedriveEnding:
    """Count the letters that a redrive would send now, and look for later requests of their keys.

    Nothing is changed.

    Args:
        within: only letters in these spans.
    """
    answers = NamedResults(plan.filter.ids)
    all_letters = PageUnderWay(answers, {}, read=0, total=0)
    wish = plan.wish("", began_at=None)
    # One more than are asked about, so that it is seen that there are more.
    to_send: dict[str, None] = {}
    first: list[Letter] = []
    is_cut, marks, risks = False, 0, RedriveRisks()
    with redrive_connections(settings, plan) as connections:
        looked_at = connections.work.moment() if plan.sends_again else None
        letters = connections.letters
        spans = letters.spans(since_ms=plan.filter.since_ms) if within is None else within
        left, left_out = spans_left(spans, plan, letters)
        topic_ids = letters.topic_ids if within is None else plan.topic_ids
        for page in letters.pages(left):
            chosen = [one for one in page.letters if plan.filter.takes(one)]
            all_letters.add(READ, len(page.letters))
            all_letters.add(CHOSEN, len(chosen))
            judged = connections.work.judge([candidate_of(one) for one in chosen], wish)
            for one, found in zip(chosen, judged, strict=True):
                fault = plan.fault_of(one, connections.topics) or found.kind
                what = SENT if fault in TO_SEND else fault.value
                all_letters.became(one.request_id, what)
                marks += mark_of(candidate_of(one)) if what == SENT else 0
                if what == SENT and found.row is None:
                    risks.add(found.sent_before)
                if what == SENT and len(to_send) <= MOST_ASKED:
                    to_send[one.request_id] = None
                if what == SENT and len(first) < MOST_SHOWN:
                    first.append(one)
            pace.on_progress(page.read, page.total)
            is_cut = pace.stopping.is_set() and page.read < page.total
            if is_cut:
                break
    later = asked_anew(settings, to_send)
    return RedriveEnding(
        "",
        STOPPED if is_cut else REHEARSED,
        dict(all_letters.counts),
        answers.of_named,
        later=later,
        seen=spans,
        first=first,
        marks=marks,
        risks=risks,
        looked_at=looked_at,
        is_theirs=bool(plan.dlqs),
        topic_ids=topic_ids,
        left_out=left_out,
    )


@contextmanager
def redrive_connections(settings: Settings, plan: RedrivePlan) -> Iterator[RedriveConnections]:
    """Yield the connections of a redrive; close them afterwards."""
    with ExitStack() as stack:
        work = stack.enter_context(closing(redrives_of(settings)))
        statuses = stack.enter_context(opened_statuses(settings, work.journal_id()))
        letters = journaled_letters(settings, topics=plan.topics, dlqs=plan.dlqs)
        stack.enter_context(letters)
        scan = stack.enter_context(KafkaScan(settings.kafka, committed_only=False))
        writer = stack.enter_context(closing(KafkaWriter(settings.kafka)))
        topics = frozenset(scan.topics())
        yield RedriveConnections(
            settings.kafka.group, letters, work, SentScan(scan), statuses, writer, topics
        )


def redrives_of(settings: Settings) -> RedriveWork:
    """Return the redrives in the journal of the settings, for this process."""
    return RedriveWork.from_settings(settings, owner=new_owner())


def _run(stands: Redrive, connections: RedriveConnections, pace: RedrivePace) -> RedriveEnding:
    pace.on_begun(stands.redrive_id)
    redriving = RedriveLoop(stands, connections, pace)
    try:
        state = DONE if redriving.run() else STOPPED
    except RedriveStopped:
        now = connections.work.find(stands.redrive_id)
        if now is None or now.state != CANCELLED:
            raise
        state = CANCELLED
        connections.work.release(stands.redrive_id)
    except NotAvailable as error:
        # The journal itself may be away: then the redrive can be resumed a little later.
        with suppress(OncewardError):
            connections.work.leave(stands.redrive_id, is_done=False)
        raise NotAvailable(_stopped_by(error, connections.work, stands.redrive_id)) from error
    progress = redriving.progress
    named = progress.answers.of_named
    return RedriveEnding(
        stands.redrive_id,
        state,
        progress.counts,
        named,
        connections.statuses.missed,
        connections.statuses.refusal,
        replaced=redriving.replaced,
        is_theirs=bool(RedrivePlan.from_json(stands.filter).dlqs),
        left_out=dict(progress.left_out),
    )


def _stopped_by(error: NotAvailable, work: RedriveWork, redrive_id: str) -> str:
    """Return in words why a redrive has stopped, and how to go on."""
    go_on = f"go on later with `onceward-dlq redrive --resume {redrive_id}`"
    if not isinstance(error, JournalMoved):
        return f"{error}; {go_on}"
    try:
        stands = work.find(redrive_id)
    except OncewardError as away:
        return f"{error.fact}; whether the new one knows redrive {redrive_id} is not known: {away}"
    if stands is None:
        how = f"the new one knows no redrive {redrive_id}: look there how its letters stand"
    elif stands.state == CANCELLED:
        how = f"it is cancelled in the new one, and may stay so, or {go_on}"
    else:
        how = f"{go_on}; where you have cancelled it, repeat that: the new one does not know of it"
    return f"{error.fact}; {how}"


def _found(work: RedriveWork, redrive_id: str) -> Redrive:
    stands = work.find(redrive_id)
    if stands is None:
        raise NotResumed(f"there is no redrive {redrive_id}: `onceward-dlq redrives` lists them")
    return stands


def _taken(
    work: RedriveWork,
    redrive_id: str,
    stopping: threading.Event,
    *,
    by: str,
    because: str | None,
    seen: str | None,
) -> Redrive:
    """Take the redrive over, once its last process has nothing under way any more."""
    first = _found(work, redrive_id)
    if seen is not None and seen != stand_of(first):
        raise NotResumed(f"redrive {redrive_id} has changed since you looked: it is {first.state}")
    stands = first
    while stands.state != DONE:
        if stands.updated_at != first.updated_at or stopping.is_set():
            raise NotResumed(f"redrive {redrive_id} goes on in the process {stands.owner}")
        is_free = not is_at_work(stands.owner, stands.silent_ms)
        if is_free and work.take(stands, by=by, reason=because):
            return stands._replace(state=RUNNING)
        if not is_free:
            stopping.wait(ASK_AGAIN_S)
        stands = _found(work, redrive_id)
    return stands
