"""Claims: who may run a request, decided for a whole batch within one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from consumer.journal.batch import CLAIMS, carry
from consumer.journal.claims.claim_sql import (
    EXTERNAL,
    close_failures,
    expire_claims,
    insert_claims,
    reopen_claims,
    retry_claims,
)
from consumer.journal.claims.forgetting import (
    doubt_forgotten,
    find_marks,
    is_forgotten,
)
from consumer.journal.claims.verdict import (
    CLOSE,
    EXPIRE,
    EXPIRED,
    FORGOTTEN,
    GONE,
    HELD,
    IN_HAND,
    INSERT,
    REOPEN,
    RETRY,
    ClaimAction,
    ClaimDecision,
    decide,
    in_order,
)
from consumer.journal.errors import Contended
from consumer.journal.history import retried_runs
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.ordering import find_holders
from consumer.journal.records import (
    DEADLINE_OVER,
    Claim,
    ClaimVerdict,
    JournalState,
    KeyHolder,
    Row,
    VerdictKind,
    over_message,
)

_MAX_READS = 4
# An update of an existing row: the statement, and the decision that it carries out.
_CHANGES = {
    ClaimAction.REOPEN: (reopen_claims, REOPEN),
    ClaimAction.RETRY: (retry_claims, RETRY),
    ClaimAction.EXPIRE: (expire_claims, EXPIRE),
    ClaimAction.CLOSE: (close_failures, CLOSE),
}


@dataclass(slots=True)
class Claims:
    """Decides a batch of claims within one transaction.

    Args:
        held: (request_id, generation) that this worker already runs; each granted claim is added.
        tried: requests whose claim may stand from a call of unknown outcome.
        expects_rows: most of them are known to the journal, as far as one can guess: they are
            looked up before a row is tried. It costs a statement, or saves one.
    """

    writer: JournalWriter
    held: set[tuple[str, int]]
    tried: Collection[str] = ()
    expects_rows: bool = False
    _holders: dict[str, KeyHolder] = field(default_factory=dict)

    def decide(self, claims: Sequence[Claim]) -> list[ClaimVerdict]:
        """Return one verdict for each claim, in order; a later claim of an id sees the earlier."""
        verdicts: list[ClaimVerdict | None] = [None] * len(claims)
        for turn in turns(claims):
            by_id = {claims[position].request_id: claims[position] for position in turn}
            answers = self._of_distinct(by_id)
            for position in turn:
                verdicts[position] = answers[claims[position].request_id]
        return [verdict for verdict in verdicts if verdict is not None]

    def _of_distinct(self, claims: dict[str, Claim]) -> dict[str, ClaimVerdict]:
        self._holders = self._find_holders(claims)
        verdicts = self._of_retries({name: one for name, one in claims.items() if one.wakes})
        waiting = _without(claims, verdicts)
        if waiting and self.expects_rows:
            verdicts.update(self._answer(waiting))
            waiting = _without(waiting, verdicts)
        for _ in range(_MAX_READS):
            if not waiting:
                return verdicts
            verdicts.update(self._insert(waiting))
            waiting = _without(waiting, verdicts)
            if waiting:
                verdicts.update(self._answer(waiting))
                waiting = _without(waiting, verdicts)
                # Claims that have no row, and must not get one yet.
                verdicts.update(self._of_held(waiting))
                verdicts.update(self._of_running(_without(waiting, verdicts)))
                waiting = _without(waiting, verdicts)
        if not waiting:
            return verdicts
        # Each time a row stood in the way of the insert and was gone when it was read.
        raise Contended("rows appear and vanish under a claim")

    def _of_retries(self, claims: dict[str, Claim]) -> dict[str, ClaimVerdict]:
        """Return the verdicts of wake-ups; none of them makes a row."""
        if not claims:
            return {}
        verdicts = dict(self._answer(claims))
        for request_id, claim in _without(claims, verdicts).items():
            verdicts[request_id] = ClaimVerdict(GONE.kind, claim, None, GONE.reason)
        running = [name for name, one in verdicts.items() if one.kind is VerdictKind.RUN]
        retried = retried_runs(self.writer.connection, self.writer.group, running)
        for name in running:
            row = verdicts[name].row
            if row is not None and (name, row.attempt) in retried:
                verdicts[name] = replace(verdicts[name], retried=retried[name, row.attempt])
        return verdicts

    def _find_holders(self, claims: dict[str, Claim]) -> dict[str, KeyHolder]:
        ordered = {name: one for name, one in claims.items() if one.order_key is not None}
        return find_holders(self.writer.connection, self._load(ordered, {})) if ordered else {}

    def _of_held(self, claims: dict[str, Claim]) -> Iterator[tuple[str, ClaimVerdict]]:
        for request_id, claim in claims.items():
            if self._is_held(claim):
                yield request_id, self._held_back(claim)

    def _of_running(self, claims: dict[str, Claim]) -> Iterator[tuple[str, ClaimVerdict]]:
        # Its run is in hand, and the database has lost its claim: a second one beside it is none.
        in_hand = {name for name, _ in self.held}
        for request_id, claim in claims.items():
            if request_id in in_hand:
                yield request_id, ClaimVerdict(IN_HAND.kind, claim, None, IN_HAND.reason)

    def _is_held(self, claim: Claim) -> bool:
        holder = self._holders.get(claim.request_id)
        # A claim past its deadline need not wait for its end.
        return holder is not None and holder.seen_at < claim.deadline_at

    def _held_back(self, claim: Claim) -> ClaimVerdict:
        due_in_ms = self._holders[claim.request_id].due_in_ms
        return ClaimVerdict(HELD.kind, claim, None, HELD.reason, due_in_ms=due_in_ms)

    def _insert(self, claims: dict[str, Claim]) -> Iterator[tuple[str, ClaimVerdict]]:
        if self._holders or self.held:
            in_hand = {name for name, _ in self.held}
            claims = {
                name: one
                for name, one in claims.items()
                if name not in in_hand and not self._is_held(one)
            }
            if not claims:
                return
        statement = insert_claims(self.writer.dialect, outcomes=bool(self.writer.outcome_topics))
        parameters = self._load(claims, {name: one.begins_at for name, one in claims.items()})
        if self.writer.outcome_topics:
            parameters["outcome_topics"] = sorted(self.writer.outcome_topics)
        answers = self.writer.connection.execute(statement, parameters).all()
        taken_back = self._take_back(
            [
                claims[name]
                for name, state, _ in answers
                if state == JournalState.EXPIRED or claims[name].names_no_deadline
            ]
        )
        for request_id, state, now in answers:
            claim = claims[request_id]
            row = taken_back.get(request_id)
            if row is None:
                row = first_row(claim, state, worker_id=self.writer.worker_id, now=now)
                decision = INSERT if row.state == JournalState.CLAIMED else EXPIRED
            else:
                decision = FORGOTTEN
            yield request_id, self._verdict(claim, row, decision)

    def _take_back(self, claims: Collection[Claim]) -> dict[str, Row]:
        """Return the rows of those that may have ended and been forgotten, in doubt.

        Asked after the insert: a row that is pruned in this moment either stood in its way, or has
        left its mark by now.
        """
        if not claims:
            return {}
        marks = find_marks(self.writer.connection, self.writer.group, claims)
        found = {one.request_id: one for one in claims if is_forgotten(one, marks)}
        if not found:
            return {}
        statement = doubt_forgotten(self.writer.dialect)
        generations = {name: one.begins_at for name, one in found.items()}
        answers = self.writer.connection.execute(statement, self._load(found, generations)).all()
        return {row.request_id: row for row in (Row(*answer) for answer in answers)}

    def _answer(self, claims: dict[str, Claim]) -> Iterator[tuple[str, ClaimVerdict]]:
        rows, now = self.writer.read(claims)
        changing = {}
        for request_id, row in rows.items():
            decision = self._decision(claims[request_id], row, now)
            if decision.step in _CHANGES:
                changing[request_id] = claims[request_id]
            else:
                yield request_id, self._verdict(claims[request_id], row, decision)
        if changing:
            yield from self._change(changing)

    def _change(self, claims: dict[str, Claim]) -> Iterator[tuple[str, ClaimVerdict]]:
        # Decided again on locked rows: another worker may have been faster.
        rows, now = self.writer.read(claims, lock=True)
        chosen: dict[ClaimAction, dict[str, int]] = {}
        for request_id, row in rows.items():
            decision = self._decision(claims[request_id], row, now)
            if decision.step in _CHANGES:
                chosen.setdefault(decision.step, {})[request_id] = row.generation
            else:
                yield request_id, self._verdict(claims[request_id], row, decision)
        for step, generations in chosen.items():
            yield from self._carry_out(step, claims, generations)

    def _carry_out(
        self, step: ClaimAction, claims: dict[str, Claim], generations: dict[str, int]
    ) -> Iterator[tuple[str, ClaimVerdict]]:
        statement, decision = _CHANGES[step]
        if decision.kind is VerdictKind.RUN:
            self.writer.keep_runs(generations.items())
        chosen = {name: claims[name] for name in generations}
        parameters = self._load(chosen, generations)
        made = statement(self.writer.dialect)
        for answer in self.writer.connection.execute(made, parameters).all():
            row = Row(*answer)
            yield row.request_id, self._verdict(chosen[row.request_id], row, decision)

    def _decision(self, claim: Claim, row: Row, now: int) -> ClaimDecision:
        decision = decide(
            claim, row, now, worker_id=self.writer.worker_id, held=self.held, tried=self.tried
        )
        return in_order(decision, self._holders.get(claim.request_id))

    def _verdict(self, claim: Claim, row: Row, decision: ClaimDecision) -> ClaimVerdict:
        if decision is HELD:
            return self._held_back(claim)
        if decision.kind is VerdictKind.RUN:
            self.held.add((row.request_id, row.generation))
        return ClaimVerdict(decision.kind, claim, row, decision.reason)

    def _load(self, claims: dict[str, Claim], generations: dict[str, int]) -> dict[str, object]:
        dialect = self.writer.dialect
        rows = [
            (
                self.writer.group,
                request_id,
                claim.topic,
                claim.partition,
                claim.offset,
                carry(claim.message_key, dialect),
                claim.payload_sha256,
                claim.attempt,
                claim.deadline_at,
                claim.effect_kind,
                claim.in_doubt,
                claim.order_key,
                generations.get(request_id, 0),
            )
            # Two workers that lock the same rows lock them in the same order.
            for request_id, claim in sorted(claims.items())
        ]
        return {**CLAIMS.load(self.writer.connection, rows), "this_worker": self.writer.worker_id}


def turns(claims: Sequence[Claim]) -> Iterator[list[int]]:
    """Yield the positions of claims so that neither an id nor a key comes twice in one turn."""
    left = list(range(len(claims)))
    while left:
        seen: set[tuple[str, str]] = set()
        turn: list[int] = []
        later: list[int] = []
        for position in left:
            names = _names(claims[position])
            (turn if seen.isdisjoint(names) else later).append(position)
            seen.update(names)
        yield turn
        left = later


def _names(claim: Claim) -> tuple[tuple[str, str], ...]:
    named = ("id", claim.request_id)
    return (named,) if claim.order_key is None else (named, ("key", claim.order_key))


def _without(claims: dict[str, Claim], verdicts: dict[str, ClaimVerdict]) -> dict[str, Claim]:
    return {name: claim for name, claim in claims.items() if name not in verdicts}


def first_row(claim: Claim, state: str, *, worker_id: str, now: int) -> Row:
    """Return the row that a first claim made; reading it back would cost more than it says."""
    runs, is_late = state == JournalState.CLAIMED, state == JournalState.EXPIRED
    return Row(
        request_id=claim.request_id,
        topic=claim.topic,
        partition=claim.partition,
        offset=claim.offset,
        message_key=claim.message_key,
        payload_sha256=claim.payload_sha256,
        attempt=claim.attempt,
        generation=claim.begins_at,
        effect_kind=claim.effect_kind,
        effect_at=now if runs and claim.effect_kind == EXTERNAL else None,
        deadline_at=claim.deadline_at,
        state=state,
        owner=worker_id,
        claimed_at=now if runs else None,
        due_at=None,
        finished_at=None if runs else now,
        code=DEADLINE_OVER if is_late else None,
        message=over_message((now - claim.deadline_at) // 1000) if is_late else None,
        result=None,
        resend=False,
        by=None,
        published_at=None,
        dead_letter_at=None,
        voids=0,
        in_doubt=claim.in_doubt,
    )
