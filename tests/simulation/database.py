"""The journal's database: rows, history and leases, changed by the conditions of its statements.

What is decided is decided by the product's own pure rules; the conditions of the SQL are said again
here, each as a method of its own, so that a test can leave one out. `test_database.py` compares all
of it with the real journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from consumer.handlers.declaration import EffectKind
from consumer.journal import (
    WORKER_DIED,
    Applied,
    Claim,
    ClaimVerdict,
    EffectMark,
    Finish,
    FinishKind,
    FinishResult,
    JournalState,
    OwnRun,
    Published,
    Refusal,
    Row,
    Skip,
    Takeover,
    TakeoverKind,
    TakeoverResult,
    TakeoverResultKind,
    ToldRun,
    VerdictKind,
    Work,
)
from consumer.journal.claims.claiming import first_row, turns
from consumer.journal.claims.forgetting import MESSAGE, as_forgotten, is_forgotten
from consumer.journal.claims.takeover_rule import TakeoverDecision, decide_takeover, effect_excluded
from consumer.journal.claims.verdict import (
    EXPIRED,
    FORGOTTEN,
    HELD,
    INSERT,
    ClaimAction,
    ClaimDecision,
    decide,
    decide_finish,
    gives_way,
    in_order,
    is_claimed_anew,
    is_lost,
    is_same_request,
    resolution,
)
from consumer.journal.losses.lost_rows import AllowedBy, as_denied, why_followed
from consumer.journal.losses.told_rule import catch_up_with
from consumer.journal.records import DEADLINE_OVER, KeyHolder, over_message
from tests.simulation.peers import Peers

Name = tuple[str, int]


class Database(Peers):
    """The tables of one group, and what a worker's loop and its children write."""

    # what a worker's loop writes -----------------------------------------------------------

    def apply(
        self,
        worker_id: str,
        work: Work,
        *,
        held: Collection[Name] = (),
        tried: Collection[str] = (),
    ) -> Applied:
        """Commit everything in one transaction."""
        restored = self._restore_all(worker_id, work.own_runs)
        again = {one.request_id for one in work.takeovers}
        going_on = again | {one.request_id for one in work.effects} | {*tried}
        restored += self.catch_up(
            worker_id, work.told_runs, may_overwrite_claims=False, going_on=going_on
        )
        finished = {**self._finish_all(worker_id, work.finishes)}
        restored += self.finish_over(worker_id, work.finishes, finished)
        entered = frozenset(
            (one.request_id, one.generation)
            for one in work.effects
            if self.mark_effect(worker_id, one)
        )
        mine = set(held)
        taken = {}
        for wish in work.takeovers:
            result = self._take_over(worker_id, wish, mine)
            taken[wish.request_id, wish.generation] = result
            ours = result.kind in (TakeoverResultKind.GRANTED, TakeoverResultKind.MINE)
            if ours and result.row is not None:
                mine.add((result.row.request_id, result.row.generation))
        for told in work.published:
            self.mark_published(told)
        refused = [self._refuse(worker_id, one) for one in work.refusals]
        wanted = {one.request_id: one for one in work.skips}
        skipped = [self._skip(worker_id, wanted[name]) for name in sorted(wanted)]
        verdicts: dict[int, ClaimVerdict] = {}
        for turn in turns(work.claims):
            for place in turn:
                verdicts[place] = self._claim(worker_id, work.claims[place], mine, tried)
        in_order = tuple(verdicts[place] for place in range(len(work.claims)))
        return Applied(
            in_order,
            entered,
            finished,
            tuple(refused),
            taken,
            tuple(row for row in skipped if row is not None),
            tuple(restored),
        )

    # what ends in another's stead ----------------------------------------------------------

    def _skip(self, worker_id: str, one: Skip) -> Row | None:
        row, now = self.rows.get(one.request_id), self.now_ms()
        if row is not None:
            is_it = is_same_request(one.claim, row) and (row.state, row.by) == ("SKIPPED", one.by)
            return row if is_it else None
        if not self.has_succeeded(one):
            return None
        too_late = one.claim.deadline_at <= now
        state = JournalState.EXPIRED if too_late else JournalState.SKIPPED
        first = first_row(one.claim, state, worker_id=worker_id, now=now)
        ended = first if too_late else first._replace(by=one.by)
        self.order_keys[one.request_id] = one.claim.order_key
        self._write(None, ended, worker_id)
        return ended

    def has_succeeded(self, one: Skip) -> bool:
        """Say the condition of a skip."""
        other = self.rows.get(one.by)
        run = (one.by_generation, JournalState.SUCCEEDED)
        return other is not None and (other.generation, other.state) == run

    # what the database has lost ------------------------------------------------------------

    def _restore_all(self, worker_id: str, runs: Sequence[OwnRun]) -> list[Row]:
        runs = [one for one in runs if not self.gives_way(one, worker_id)]
        latest = {one.request_id: one for one in sorted(runs, key=lambda one: one.generation)}
        rows = self.rows
        lost = [one for name, one in latest.items() if is_lost(one, rows.get(name), worker_id)]
        for one in sorted(runs, key=lambda one: one.run):
            row, last = self.rows.get(one.request_id), latest[one.request_id]
            is_it = row is not None and (row.generation, row.owner) == (one.generation, worker_id)
            if last in lost and one.run != last.run and is_it:
                self._restore(worker_id, one)
        for one in lost:
            self._restore(worker_id, one)
        return [self.rows[one.request_id] for one in lost]

    def gives_way(self, one: OwnRun, worker_id: str) -> bool:
        """Say of a run that no child took where it is not written again."""
        row = self.rows.get(one.request_id)
        is_pruned = row is None and is_forgotten(one.claim, self.marks())
        return gives_way(one, row, worker_id) or (is_pruned and not one.is_begun)

    def _restore(self, worker_id: str, one: OwnRun) -> None:
        """Write again what is lost of a worker's own run."""
        row = self.rows.get(one.request_id)
        if not is_lost(one, row, worker_id):
            return
        is_pruned = row is None and is_forgotten(one.claim, self.marks())
        if is_pruned and one.may_be_followed:
            one = as_forgotten(one)
        if row is None or self.is_of_another_claim(one, row, worker_id):
            if row is not None:
                self._keep_lost(row, worker_id, why_followed(row, one.claim, one.generation))
                one = as_denied(one, row)
            claimed_at = self._claimed_at(one.claim)
            claim = one.claim._replace(begins_at=one.generation)
            first = first_row(claim, JournalState.CLAIMED, worker_id=worker_id, now=claimed_at)
            effect_at = claimed_at if one.entered else first.effect_at
            self.order_keys[one.request_id] = claim.order_key
            again = first._replace(effect_at=effect_at, voids=claim.voids)
            is_end = row is not None and (row.knows_of_no_claim or row.generation == one.generation)
            if one.finish is not None and row is not None and is_end:
                # It is at no moment a claim that others could go on with.
                self._write(row, self._ended_by(again, one.finish), worker_id)
                return
            self._write(row, again, worker_id)
        elif one.finish is None:
            self.mark_effect(worker_id, EffectMark(one.request_id, one.generation))
        if one.finish is not None:
            self._finish_all(worker_id, [one.finish])

    def is_of_another_claim(self, one: OwnRun, row: Row, worker_id: str) -> bool:
        """Say which rows a lost run is written over."""
        if row.generation < one.generation or row.knows_of_no_claim:
            return True
        return is_claimed_anew(row, one.claim.claimed_at, worker_id)

    def catch_up(
        self,
        worker_id: str,
        runs: Sequence[ToldRun],
        *,
        may_overwrite_claims: bool = True,
        going_on: Collection[str] = (),
    ) -> list[Row]:
        """Bring rows forward that are behind what clients were told; return them."""
        caught_up = []
        for one in runs:
            row = self.rows.get(one.request_id)
            if self.is_pruned(one, row):
                one = one.pruned(MESSAGE)
            may = may_overwrite_claims or one.request_id in going_on
            is_ours = one.request_id in going_on and row is not None and row.owner == worker_id
            is_gone = may and row is not None and (is_ours or not self.lives(row.owner))
            forward = catch_up_with(one, row, owner_is_gone=is_gone)
            if forward is not None:
                if row is not None:
                    why = why_followed(row, one.claim, one.generation, is_raised=forward.is_raised)
                    self._keep_lost(row, worker_id, why)
                caught_up.append(self._bring_forward(worker_id, forward, row))
        return caught_up

    def is_pruned(self, one: ToldRun, row: Row | None) -> bool:
        """Say whether what was told is of a request that was pruned since."""
        is_unknown = row is None or row.is_unclaimed_end
        return one.is_open and is_unknown and is_forgotten(one.claim, self.marks())

    def _keep_lost(self, row: Row, worker_id: str, why: AllowedBy | TakeoverKind | None) -> None:
        outcome = WORKER_DIED if row.state == JournalState.CLAIMED else None
        self._keep(row, worker_id, outcome=outcome, allowed_by=why)

    def _claimed_at(self, claim: Claim) -> int:
        return self.now_ms() if claim.claimed_at is None else claim.claimed_at

    def _bring_forward(self, worker_id: str, one: ToldRun, row: Row | None) -> Row:
        now, claim = self._claimed_at(one.claim), one.claim._replace(begins_at=one.generation)
        first = first_row(claim, JournalState.CLAIMED, worker_id=one.owner, now=now)
        before = first._replace(voids=claim.voids)
        if row is not None:
            before = row._replace(
                generation=one.generation,
                owner=one.owner,
                attempt=max(row.attempt, claim.attempt),
                deadline_at=max(row.deadline_at, claim.deadline_at),
                effect_kind=claim.effect_kind,
                in_doubt=claim.in_doubt,
                voids=claim.voids,
                due_at=None,
                published_at=None,
            )
        never_began = one.state in (JournalState.EXPIRED, JournalState.SKIPPED)
        is_undone = before.effect_kind == "transactional" or never_began
        was_claimed = not never_began or claim.claimed_at is not None
        after = before._replace(
            state=str(one.state),
            claimed_at=now if was_claimed else None,
            effect_at=None if is_undone else now,
            finished_at=None if one.state == JournalState.CLAIMED else self.now_ms(),
            code=one.code,
            message=one.message,
            result=one.result,
            resend=one.resend,
            by=one.by,
        )
        self._write(row, after, worker_id)
        return after

    # finishes ------------------------------------------------------------------------------

    def _finish_all(
        self, worker_id: str, finishes: Sequence[Finish]
    ) -> Mapping[Name, FinishResult]:
        distinct = {(one.request_id, one.generation): one for one in reversed(finishes)}
        results: dict[Name, FinishResult] = {}
        late = []
        for name, one in sorted(distinct.items()):
            row = self.rows.get(one.request_id)
            if row is not None and self.is_claimed(row, one.generation, worker_id):
                self._end(row, one, worker_id)
                results[name] = FinishResult(FinishKind.WRITTEN)
            else:
                late.append((name, one))
        for name, one in late:
            results[name] = self._finish_late(worker_id, one)
        return results

    def _finish_late(self, worker_id: str, one: Finish) -> FinishResult:
        row = self.rows.get(one.request_id)
        kind = decide_finish(one, row, worker_id)
        if kind is not FinishKind.WRITTEN or row is None:
            return FinishResult(kind, row)
        if row.state == JournalState.CLAIMED:
            self._end(row, one, worker_id)
            return FinishResult(kind)
        self._keep(row, worker_id)
        written = resolution(one)
        self._end(row, written, worker_id)
        return FinishResult(FinishKind.WRITTEN, resolution=None if written == one else written)

    def finish_over(
        self, worker_id: str, finishes: Sequence[Finish], results: dict[Name, FinishResult]
    ) -> list[Row]:
        """Write ends over the rows that stand for their runs, whose claims are lost."""
        lost = {}
        for one in finishes:
            row = results[one.run].row
            is_lost_end = results[one.run].kind is FinishKind.LOST and one.claim is not None
            if is_lost_end and row is not None and row.generation == one.generation:
                lost[one.run] = one
        runs = [
            OwnRun(one.claim, one.generation, one.claim.effect_kind != "transactional", one)
            for one in lost.values()
            if one.claim is not None
        ]
        rows = self._restore_all(worker_id, runs)
        for row in rows:
            run = (row.request_id, row.generation)
            end = lost[run]
            other = (
                None if row.code == end.code else end._replace(code=row.code, message=row.message)
            )
            results[run] = FinishResult(FinishKind.WRITTEN, resolution=other)
        return rows

    def finish_in_child(self, worker_id: str, one: Finish, effect: Callable[[], None]) -> bool:
        """Write how a transactional run ended, with its effect; False when its claim is gone."""
        row = self.rows.get(one.request_id)
        if row is None or not self.is_claimed(row, one.generation, worker_id):
            return False
        effect()
        self._end(row, one, worker_id)
        return True

    def is_claimed(self, row: Row, generation: int, worker_id: str) -> bool:
        """Say the condition of a finish."""
        mine = row.owner == worker_id and row.generation == generation
        return mine and row.state == JournalState.CLAIMED

    def _end(self, row: Row, one: Finish, by: str) -> None:
        self._write(row, self._ended_by(row, one), by)

    def _ended_by(self, row: Row, one: Finish) -> Row:
        return row._replace(
            state=str(one.state),
            code=one.code,
            message=one.message,
            result=one.result,
            resend=one.resend,
            due_at=None if one.delay_ms is None else self.now_ms() + one.delay_ms,
            finished_at=self.now_ms(),
            published_at=None,
        )

    # effects and confirmed statuses --------------------------------------------------------

    def mark_effect(self, worker_id: str, one: EffectMark) -> bool:
        """Note that an effect is entered; False when the claim is not the worker's."""
        row = self.rows.get(one.request_id)
        if row is None or not self.may_enter(row, one, worker_id):
            return False
        if row.effect_at is None:
            self._write(row, row._replace(effect_at=self.now_ms()), worker_id)
        return True

    def may_enter(self, row: Row, one: EffectMark, worker_id: str) -> bool:
        """Say the condition of an effect."""
        mine = row.owner == worker_id and row.generation == one.generation
        return mine and row.state == JournalState.CLAIMED and self.is_in_time(row, one)

    def is_in_time(self, row: Row, one: EffectMark) -> bool:
        """Say the condition of an effect whose worker's lease was over since the run began."""
        is_over = self.now_ms() >= row.deadline_at
        return not (one.only_in_time and is_over and row.effect_at is None)

    def mark_published(self, told: Published) -> None:
        """Note what Redis confirmed."""
        row = self.rows.get(told.request_id)
        if row is not None and row.published_at is None and self.is_told(row, told):
            self._write(row, row._replace(published_at=self.now_ms()), row.owner)

    def is_told(self, row: Row, told: Published) -> bool:
        """Say the condition of `published_at`."""
        return row.generation == told.generation and row.state == told.state

    # takeovers -----------------------------------------------------------------------------

    def _take_over(self, worker_id: str, wish: Takeover, held: set[Name]) -> TakeoverResult:
        row = self.rows.get(wish.request_id)
        runs = Counter(
            one.outcome
            for one in self.history
            if row is not None and (one.request_id, one.attempt) == (row.request_id, row.attempt)
        )
        decision = decide_takeover(
            wish,
            row,
            self.now_ms(),
            worker_id=worker_id,
            owner_lives=row is not None and self.lives(row.owner),
            ended_runs=runs,
            held=held,
        )
        granted = decision.kind is TakeoverResultKind.GRANTED
        if row is None or not (granted or decision.kind is TakeoverResultKind.ENDED):
            return TakeoverResult(decision.kind, row)
        if granted and wish.kind is TakeoverKind.ASK:
            after = row._replace(owner=worker_id)
        elif granted:
            self._keep(row, worker_id, outcome=wish.because, allowed_by=str(wish.kind))
            after = self._next_run(row, wish, worker_id)
        else:
            after = self._ended(row, decision)
        self._write(row, after, worker_id)
        return TakeoverResult(decision.kind, after)

    def _next_run(self, row: Row, wish: Takeover, worker_id: str) -> Row:
        assert wish.kind is not TakeoverKind.EXCLUDED or effect_excluded(row)
        now = self.now_ms()
        is_doubtful = wish.kind is TakeoverKind.SAME_KEY
        kept = row.effect_at if is_doubtful else None
        declared = wish.effect_kind or row.effect_kind
        if is_doubtful and declared == EffectKind.TRANSACTIONAL:
            declared = row.effect_kind
        return row._replace(
            generation=row.generation + 1,
            owner=worker_id,
            claimed_at=now,
            effect_kind=declared,
            effect_at=self.effect_at_claim(str(declared), now) or kept,
            voids=row.voids + (wish.kind is TakeoverKind.VOIDED),
            in_doubt=wish.in_doubt or row.in_doubt,
        )

    def _ended(self, row: Row, decision: TakeoverDecision) -> Row:
        return row._replace(
            state=str(decision.state),
            code=decision.code,
            message=decision.message,
            finished_at=self.now_ms(),
            published_at=None,
        )

    # claims and refusals -------------------------------------------------------------------

    def _claim(
        self, worker_id: str, claim: Claim, held: set[Name], tried: Collection[str]
    ) -> ClaimVerdict:
        now = self.now_ms()
        row = self.rows.get(claim.request_id)
        decision = decide(claim, row, now, worker_id=worker_id, held=held, tried=tried)
        too_late = claim.deadline_at <= now
        holder = self.holder(claim)
        if holder is not None:
            is_first = row is None and not claim.wakes
            is_held = not too_late if is_first else in_order(decision, holder) is HELD
            if is_held:
                due_in_ms = holder.due_in_ms
                return ClaimVerdict(HELD.kind, claim, None, HELD.reason, due_in_ms=due_in_ms)
        if decision.step is ClaimAction.INSERT:
            state = JournalState.EXPIRED if too_late else JournalState.CLAIMED
            first = first_row(claim, state, worker_id=worker_id, now=now)
            self.order_keys[claim.request_id] = claim.order_key
            if not too_late:
                first = first._replace(effect_at=self.effect_at_claim(claim.effect_kind, now))
            row, decision = first, EXPIRED if too_late else INSERT
            doubted = self.doubted(claim, first)
            if doubted is not None:
                row, decision = doubted, FORGOTTEN
            self._write(None, row, worker_id)
        elif decision.step is ClaimAction.REOPEN and row is not None:
            self._keep(row, worker_id)
            reopened = self._reopened(row, claim, worker_id)
            self._write(row, reopened, worker_id)
            row = reopened
        elif decision.step is ClaimAction.RETRY and row is not None:
            self._keep(row, worker_id)
            again = self._retried(row, claim, worker_id)
            self._write(row, again, worker_id)
            row = again
        elif decision.step is ClaimAction.EXPIRE and row is not None:
            expired = self._waited_too_long(row)
            self._write(row, expired, worker_id)
            row = expired
        elif decision.step is ClaimAction.CLOSE and row is not None:
            closed = row._replace(resend=False, published_at=None)
            self._write(row, closed, worker_id)
            row = closed
        return self._verdict(claim, row, decision, held)

    def holder(self, claim: Claim) -> KeyHolder | None:
        """Return what goes before a request because it has its key."""
        others = [
            row
            for name, row in self.rows.items()
            if name != claim.request_id
            and claim.order_key is not None
            and self.order_keys.get(name) == claim.order_key
            and row.state in (JournalState.CLAIMED, JournalState.RETRYING)
        ]
        if not others:
            return None
        now, due_at = self.now_ms(), [row.due_at for row in others if row.due_at is not None]
        is_running = any(row.state == JournalState.CLAIMED for row in others)
        due_in_ms = 0 if is_running or not due_at else max(0, min(due_at) - now)
        return KeyHolder(is_running, due_in_ms, now)

    def _verdict(
        self, claim: Claim, row: Row | None, decision: ClaimDecision, held: set[Name]
    ) -> ClaimVerdict:
        if decision.kind is VerdictKind.RUN and row is not None:
            held.add((row.request_id, row.generation))
        return ClaimVerdict(decision.kind, claim, row, decision.reason)

    def effect_at_claim(self, effect_kind: str, now: int) -> int | None:
        """Return what a claim says of the effect: of a plain external handler, that it may be."""
        return now if effect_kind == "external" else None

    def _reopened(self, row: Row, claim: Claim, worker_id: str) -> Row:
        now = self.now_ms()
        self.order_keys[claim.request_id] = claim.order_key
        cleared = ("code", "message", "result", "finished_at", "published_at", "dead_letter_at")
        return row._replace(
            generation=row.generation + 1,
            state=str(JournalState.CLAIMED),
            attempt=claim.attempt,
            topic=claim.topic,
            partition=claim.partition,
            offset=claim.offset,
            owner=worker_id,
            claimed_at=now,
            effect_kind=claim.effect_kind,
            effect_at=self.effect_at_claim(claim.effect_kind, now),
            in_doubt=claim.in_doubt,
            due_at=None,
            resend=False,
            **dict.fromkeys(cleared),  # type: ignore[arg-type]
        )

    def _retried(self, row: Row, claim: Claim, worker_id: str) -> Row:
        now = self.now_ms()
        cleared = ("code", "message", "result", "finished_at", "published_at", "due_at")
        return row._replace(
            generation=row.generation + 1,
            state=str(JournalState.CLAIMED),
            owner=worker_id,
            claimed_at=now,
            effect_kind=claim.effect_kind,
            effect_at=self.effect_at_claim(claim.effect_kind, now),
            in_doubt=claim.in_doubt,
            **dict.fromkeys(cleared),  # type: ignore[arg-type]
        )

    def _waited_too_long(self, row: Row) -> Row:
        cleared = ("result", "published_at", "due_at")
        now = self.now_ms()
        return row._replace(
            state=str(JournalState.EXPIRED),
            finished_at=now,
            code=DEADLINE_OVER,
            message=over_message((now - row.deadline_at) // 1000),
            **dict.fromkeys(cleared),  # type: ignore[arg-type]
        )

    def _refuse(self, worker_id: str, one: Refusal) -> Row:
        if one.request_id not in self.rows:
            claim = Claim(
                one.request_id,
                one.topic,
                one.partition,
                one.offset,
                one.message_key,
                one.payload_sha256,
                one.attempt,
                one.deadline_at,
                "",
            )
            row = first_row(claim, JournalState.FAILED, worker_id=worker_id, now=self.now_ms())
            row = row._replace(effect_kind=None, code=one.code, message=one.message)
            self._write(None, row, worker_id)
        return self.rows[one.request_id]
