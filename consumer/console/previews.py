"""Previews: the letters that an action would take, as they were shown and confirmed.

A preview goes to the browser and back under a signature, so that the action takes the letters that
were seen: by the filter, the spans of the letters that were counted, and digests of these failures
and of those that later requests have repaired or may repair.
Letters that fail after it are not part of it. Where any of it has changed, the person looks again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from itsdangerous import BadData, URLSafeTimedSerializer

from consumer.dlq.discard_command import JudgedFailure, discard_letters
from consumer.dlq.letter import Letter
from consumer.dlq.options import LetterOptions
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.progress import (
    SENT,
    left_in_words,
    left_out_in_words,
    refusal_counts,
)
from consumer.dlq.redrive.redrive_plan import RedrivePlan
from consumer.dlq.redrive.redrive_session import rehearse
from consumer.dlq.redrive.risks import RedriveRisks
from consumer.journal.redrive.later_requests import NOTHING_LATER, NamedLater
from feedback.errors import SettingsError
from feedback.kafka.scan import OffsetSpan, OffsetSpans
from feedback.settings.settings import Settings

REDRIVE, DISCARD, REPLACE = "redrive", "discard", "replace"
ALL_THE_SAME = "all_the_same"
VALID_S = 3600


@dataclass(frozen=True, slots=True)
class Preview:
    """The letters that an action would take.

    Attributes:
        kind: the action.
        count: how many it would take.
        left: the numbers of the chosen ones that it leaves, by the reason in words.
        first: of those that are sent, the first.
        later: the later requests of the same keys that have succeeded or may succeed, also those
            that the same action sends.
        marks: of the letters that it would take; see `mark_of`.
        risks: those of them that may run twice.
        known: of a discard by ids: the failures that the journal has.
    """

    kind: str
    plan: RedrivePlan
    count: int
    spans: OffsetSpans
    left: Mapping[str, int] = field(default_factory=dict)
    first: list[Letter] = field(default_factory=list)
    later: NamedLater = NOTHING_LATER
    marks: int = 0
    risks: RedriveRisks = field(default_factory=RedriveRisks)
    known: Sequence[JudgedFailure] = ()

    @property
    def given(self) -> LetterOptions:
        """Its filter, as the commands have it."""
        return LetterOptions(self.plan.filter, self.plan.topics, self.plan.dlqs)

    @property
    def seen(self) -> str:
        """The facts that a person has seen besides the filter, in short."""
        return f"{self.count} {self.marks} {self.risks} {warning_of(self.later)}"

    @property
    def needs(self) -> Mapping[str, str]:
        """Why a person has to want it all the same, by the field that says so."""
        asks = asks_all_the_same(self.later)
        said = (
            {ALL_THE_SAME: "later requests may have done their work, or may do it"} if asks else {}
        )
        return said | dict(self.risks.words())


def warning_of(later: NamedLater) -> str:
    """Return in short of which failures a person is warned.

    It does not name the later requests: of a busy key there are others at each look.
    """
    may_be = {*later.of, *later.undecided}
    facts = [sorted(later.of), sorted(may_be), sorted(may_be.union(later.failed)), later.is_whole]
    return sha256(json.dumps(facts).encode()).hexdigest()


def asks_all_the_same(later: NamedLater) -> bool:
    """Whether a person has to say that the letters go although later requests may repair them."""
    return later.names_any or not later.is_whole


@dataclass(frozen=True, slots=True)
class ConfirmedPreview:
    """A preview as a person has confirmed it; `seen` is `Preview.seen` of then."""

    kind: str
    plan: RedrivePlan
    count: int
    spans: OffsetSpans
    seen: str


def change_since(confirmed: ConfirmedPreview, now: Preview, *, said: Collection[str]) -> str:
    """Return why a confirmed preview is shown again; nothing where it stands.

    Args:
        said: the fields that the person has filled in, with those of `Preview.needs`.
    """
    if now.seen != confirmed.seen:
        return f"It has changed since you looked: {confirmed.count:,} then, {now.count:,} now."
    unsaid = [why for name, why in now.needs.items() if name not in said]
    return f"Say that you want it all the same: {'; '.join(unsaid)}." if unsaid else ""


class Previews:
    """Makes previews of one group, and knows them again; any thread may call it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seal = URLSafeTimedSerializer(secrets.token_hex(32))

    def of(self, kind: str, plan: RedrivePlan, *, within: OffsetSpans | None = None) -> Preview:
        """Return the letters that an action would take now; nothing is changed.

        Args:
            within: only letters in these spans.

        Raises:
            NotAvailable: Kafka or the journal is away.
        """
        if kind != DISCARD:
            found = rehearse(self._settings, plan, pace=RedrivePace(), within=within)
            counts, count, spans = found.counts, found.counts.get(SENT, 0), found.seen
            first, later, marks = found.first, found.later or NOTHING_LATER, found.marks
            plan = replace(plan, looked_at=found.looked_at, topic_ids=found.topic_ids)
            risks, left_out = found.risks, left_out_in_words(found.left_out)
            known: Sequence[JudgedFailure] = ()
        else:
            given = LetterOptions(plan.filter, plan.topics, plan.dlqs)
            trial = discard_letters(
                self._settings,
                given,
                by="",
                because="",
                pace=RedrivePace(),
                takes_sent=plan.sends_again,
                is_trial=True,
                within=within,
            )
            counts, count, spans = dict(trial.counts), trial.taken, trial.seen
            first, later, marks, risks = [], NOTHING_LATER, trial.marks, RedriveRisks()
            known, left_out = trial.known, {}
        is_theirs = bool(plan.dlqs) and kind != DISCARD
        left = left_in_words(refusal_counts(counts), is_theirs=is_theirs) | left_out
        return Preview(kind, plan, count, spans or {}, left, first, later, marks, risks, known)

    def sealed(self, preview: Preview) -> str:
        """Return a preview as the text that a form carries."""
        spans = [[*place, span.begin, span.end] for place, span in preview.spans.items()]
        plan = preview.plan.to_json()
        return str(self._seal.dumps([preview.kind, plan, preview.count, spans, preview.seen]))

    def opened(self, text: str, kind: str) -> ConfirmedPreview:
        """Return the preview that a form carries.

        Raises:
            SettingsError: this console has not made it, or long ago, or for another action.
        """
        try:
            made, plan, count, spans, seen = self._seal.loads(text, max_age=VALID_S)
        except BadData:
            made = ""
        if made != kind:
            raise SettingsError("this preview is old, or not of this console: look again")
        return ConfirmedPreview(kind, RedrivePlan.from_json(plan), count, _spans(spans), seen)


def _spans(rows: list[Any]) -> OffsetSpans:
    return {(topic, number): OffsetSpan(begin, end) for topic, number, begin, end in rows}
