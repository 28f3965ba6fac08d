"""The contract's promises, looked at after every step. It knows the truth, and none of the rules
that are to keep it: what it says is said again from the contract, and nothing is taken over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from consumer.handlers.declaration import EffectKind, InDoubtPolicy
from consumer.journal import Applied, Finish, FinishKind, JournalState, Row
from consumer.pool import Job
from feedback.records.envelope import Record, payload_sha256
from feedback.status import BEFORE_CLAIM, FINAL, RefusalReason
from feedback.status import State as Told
from feedback.statuses import Refused, Status, StatusWrite
from tests.simulation.kafka import Partition, Place, place_of
from tests.simulation.processes import Violation
from tests.simulation.requests import Act, order_of
from tests.simulation.tables import Change

if TYPE_CHECKING:
    from tests.simulation.pool import SimulatedRun
    from tests.simulation.world import World

_WITHOUT_EFFECT = (JournalState.FAILED, JournalState.EXPIRED, JournalState.SKIPPED)
_WITH_EFFECT = (JournalState.SUCCEEDED, JournalState.IN_DOUBT)


class Watch:
    """Sees all that happens, and raises `Violation` when it must not.

    Attributes:
        states: every (request_id, generation, state) that the journal ever had.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.states: set[tuple[str, int, str]] = set()
        self._outcomes: set[tuple[str, str, int, str]] = set()
        self._ends: set[tuple[str | int | None, ...]] = set()
        self._skips: set[tuple[str, str, bytes | None, str]] = set()
        self._grants: set[tuple[str, int, str]] = set()
        # With the time of each, and those that were made since the database had forgotten another.
        self._claims: set[tuple[str, int, str, int | None]] = set()
        self._blind: set[tuple[str, int, str]] = set()
        self._confirmed: set[tuple[str, int, str]] = set()
        self._runs: dict[str, list[SimulatedRun]] = defaultdict(list)
        self._over: dict[str, str] = {}
        # With each, the word that its caller is told: (request_id, word).
        self._denied: set[tuple[str, str]] = set()
        # Of these (request_id, worker_id) the effect may have begun, and a child has had a run.
        self._marked: set[tuple[str, str]] = set()
        self._given: set[tuple[str, str]] = set()
        self._asked: dict[str, int] = {}
        self._pruned: dict[str, dict[Partition, int]] = {}
        self._repeats: dict[Place, Place] = {}

    # callers and the bank ------------------------------------------------------------------

    def over(self, request_id: str, word: str) -> None:
        """Remember that a caller was told that nothing came of a request, and never will."""
        self._over[request_id] = word
        if (request_id, word) in self._denied:
            return
        if self._world.bank.charges[request_id] and not self._is_excused(request_id):
            said = f"{request_id} {word}, and it was charged"
            raise Violation("told that nothing happened", said)

    def asked_again(self, request_id: str, generation: int) -> None:
        """Remember that a caller sends a failure again that he was told of."""
        self._asked[request_id] = generation

    def charged(self, request_id: str) -> None:
        """Look at a charge that was made."""
        if self._is_excused(request_id):
            return
        word = self._over.get(request_id)
        if word is not None and (request_id, word) not in self._denied:
            said = f"{request_id} was charged after its caller was told {word}"
            raise Violation("told that nothing happened", said)
        bank, order = self._world.bank, order_of(request_id)
        is_once = bank.charges[request_id] == 1 and self._was_asked_anew(order)
        if bank.orders[order] > 1 and not is_once:
            raise Violation("an effect happens once", f"{request_id} was charged twice")

    def _was_asked_anew(self, order: str) -> bool:
        """Whether a caller has relied on a word that came of a forgotten claim (`_deny`)."""
        told = (name for name, word in self._denied if self._over.get(name) == word)
        return any(order_of(name) == order for name in told)

    def sent(self, record: Record, known: Status | None) -> None:
        """Remember which record was sent again, as far as its sender knew.

        Args:
            known: the status that the sender has read last.
        """
        if known is None or known.partition is None or known.offset is None:
            return
        if known.topic == record.topic:
            self._repeats[place_of(record)] = (record.topic, known.partition, known.offset)

    def runs_of(self, request_id: str) -> Sequence[SimulatedRun]:
        """Return all runs of a request that have begun."""
        return self._runs[request_id]

    # dispatch and runs ---------------------------------------------------------------------

    def dispatched(self, worker_id: str, jobs: Sequence[Job]) -> None:
        """Look at what is about to be given to a child."""
        for job in jobs:
            self._given.add((job.request_id, worker_id))
            where = f"{job.topic}-{job.partition}-{job.offset}"
            name = f"{job.request_id}/{job.generation}"
            committed = self._world.kafka.ever_committed[job.topic, job.partition]
            if committed <= job.offset:
                raise Violation(
                    "nothing is dispatched before its offset is committed",
                    f"{name} lies at {where}, committed is {committed}",
                )
            if (job.request_id, job.generation, worker_id) not in self._grants:
                raise Violation(
                    "nothing is dispatched before its claim is committed",
                    f"{worker_id} has no claim on {name}",
                )
            row = self._world.database.rows.get(job.request_id)
            if row and payload_sha256(job.key, job.value) != row.payload_sha256:
                raise Violation("another payload never runs", f"{name} is not what was claimed")

    def started(self, run: SimulatedRun) -> None:
        """Look at a run that begins."""
        before = self._runs[run.job.request_id]
        self._excuse(run, before)
        if self._was_pruned(run.job.request_id, run.job) and not self._is_excused(
            run.job.request_id
        ):
            raise Violation("what was pruned never runs again", run.name)
        for earlier in before:
            if self._is_excused(run.job.request_id):
                break
            if not _may_follow(earlier, run):
                raise Violation(
                    "no second run where the effect forbids it",
                    f"{run.name} starts after {earlier.name}, which {earlier.act}",
                )
        before.append(run)

    def _excuse(self, run: SimulatedRun, before: Sequence[SimulatedRun]) -> None:
        """Expect no more of an order that goes on elsewhere after the database forgot of it."""
        losses, request_id = self._world.losses, run.job.request_id
        # What is in a child's hands by then, is not taken back when the journal knows again.
        is_blind = (request_id, run.job.generation, run.worker_id) in self._blind
        is_unknown = is_blind or self._is_unknown(request_id)
        if is_unknown and any(one.worker_id != run.worker_id for one in before):
            losses.excused.add(order_of(request_id))

    def _is_unknown(self, request_id: str) -> bool:
        losses = self._world.losses
        return request_id in losses.forgotten - losses.known_again

    def _excuse_fork(self, change: Change) -> None:
        """Expect no more of an order that two workers have gone on with apart.

        The database has forgotten that a second one took it over; the first one has gone on
        meanwhile, and each of them knows a run that the other does not.
        """
        before, after, by = change
        is_later = before is not None and before.generation < after.generation
        is_others = before is not None and before.owner not in (by, after.owner)
        if is_later and is_others and before is not None:
            had_it = (after.request_id, after.generation, by) in self._grants
            if had_it and after.request_id in self._world.losses.forgotten:
                self._world.losses.excused.add(order_of(after.request_id))

    def _deny(self, row: Row, by: str) -> None:
        """Expect no more of the word of who ends a request, not knowing of a forgotten claim.

        Its worker lives and goes on with that run, as after a long stop: a plain external one, or
        one whose mark was let in. What the journal says in the end has to be true all the same, so
        the order is not excused, and any other word is to be relied on.
        """
        if row.claimed_at is not None or row.state not in _WITHOUT_EFFECT:
            return
        runs = (
            (one.name, delivery.handler)
            for one in self._world.workers
            for (name, _), delivery in one.worker._in_flight.running.items()
            if one.name != by and name == row.request_id
        )
        may_act = any(
            handler.effect is EffectKind.EXTERNAL or (row.request_id, worker_id) in self._marked
            for worker_id, handler in runs
        )
        if may_act and row.request_id in self._world.losses.forgotten:
            self._denied.add((row.request_id, f"{row.state} {row.code or ''}".rstrip()))

    def _is_excused(self, request_id: str) -> bool:
        return order_of(request_id) in self._world.losses.excused

    def caught_up(self, rows: Sequence[Row]) -> None:
        """Expect again that no second run follows the latest one of a request."""
        for row in rows:
            granted = (one for name, one, _ in self._grants if name == row.request_id)
            if row.generation >= max(granted, default=0):
                self._world.losses.known_again.add(row.request_id)

    def pruned(self, request_ids: Sequence[str]) -> None:
        """Remember which requests the journal has forgotten, and how far each partition was."""
        marks = self._world.database.forgotten
        ends = {partition: mark.next_offset for partition, mark in marks.items()}
        self._pruned.update(dict.fromkeys(request_ids, ends))

    def has_come_of(self, request_id: str, topic: str, told: Status) -> bool:
        """Whether what is told came of this topic's request, whatever stands under its id now.

        A row of it ended so, which was pruned or is forgotten. Or its claim is forgotten, and its
        worker has ended the run: that is written where another topic's claim stands by now.
        """
        is_forgotten = request_id in self._world.losses.forgotten
        if not is_forgotten and request_id not in self._pruned:
            return False
        if (request_id, topic, told.generation, str(told.state)) in self._outcomes:
            return True
        is_written = (request_id, told.generation, str(told.state)) in self.states
        told_of = (topic, told.generation, told.worker or "")
        runs = (
            (one.job.topic, one.job.generation, one.worker_id) for one in self._runs[request_id]
        )
        return is_forgotten and is_written and told_of in runs

    def _was_pruned(self, request_id: str, place: Row | Job) -> bool:
        """Whether the journal had forgotten a request, and all up to this record of it.

        Or all up to a record that this one repeats, if its sender knew that. Any other record under
        its id that lies behind all that was forgotten is another request.
        """
        ends = self._pruned.get(request_id)
        if ends is None:
            return False
        lies: Place | None = (place.topic, place.partition, place.offset)
        while lies is not None:
            topic, partition, offset = lies
            if offset < ends.get((topic, partition), 0):
                return True
            lies = self._repeats.get(lies)
        self._world.losses.excused.add(order_of(request_id))
        return False

    # the journal ---------------------------------------------------------------------------

    def applied(
        self,
        worker_id: str,
        applied: Applied,
        finishes: Sequence[Finish],
        generations: Mapping[str, int],
    ) -> None:
        """Look at what a transaction has written, before anybody hears of it.

        Args:
            generations: of the rows before it.
        """
        for request_id, generation in applied.effects:
            row = self._world.database.rows[request_id]
            owns = (row.generation, row.owner) == (generation, worker_id)
            if not owns or row.state != JournalState.CLAIMED:
                raise Violation(
                    "no effect by a zombie that uses effect()",
                    f"{worker_id} entered {request_id}/{generation}, {_said(row)} stands there",
                )
        for one in finishes:
            written = applied.finished[one.request_id, one.generation].kind is FinishKind.WRITTEN
            if written and generations.get(one.request_id) != one.generation:
                raise Violation(
                    "a finish ends its own run",
                    f"{one.request_id}/{one.generation} ended generation "
                    f"{generations.get(one.request_id)}",
                )

    def changed(self, change: Change) -> None:
        """Look at a row that was written."""
        before, after, by = change
        self._excuse_fork(change)
        self.states.add((after.request_id, after.generation, after.state))
        self._outcomes.add((after.request_id, after.topic, after.generation, str(after.state)))
        end = (after.request_id, after.topic, after.generation, *_told_end(after))
        is_again = end in self._ends
        self._ends.add(end)
        if before is not None:
            self._ended_itself(before, after, by)
        if before is not None and before.state == JournalState.CLAIMED and after != before:
            self._taken(before, after, by)
        if after.state == JournalState.CLAIMED:
            self._alone(after)
            self._claimed(after)
            self._grants.add((after.request_id, after.generation, after.owner))
            if after.effect_at is not None:
                self._marked.add((after.request_id, after.owner))
        elif before is None or (before.state, before.generation) != (
            after.state,
            after.generation,
        ):
            self._ended(after, by)
        if before is None:
            return
        self._followed(before, after, is_again=is_again)
        if before.published_at is None and after.published_at is not None:
            self._published(after)

    def _claimed(self, row: Row) -> None:
        """Remember a claim, and whether nobody could know then of one that is forgotten."""
        run = (row.request_id, row.generation, row.owner)
        claim = (*run, row.claimed_at)
        if claim not in self._claims and self._is_unknown(row.request_id):
            self._blind.add(run)
        self._claims.add(claim)

    def _ended_itself(self, before: Row, after: Row, by: str) -> None:
        """Look whether who says that nothing came of a run had that run.

        A database that forgets may have let two workers have a run of one generation. That the
        other one has acted, or is about to, cannot be helped; but who ends one of the two finds the
        claim of the other, so there is no excuse for its word.
        """
        is_word = after.state in _WITHOUT_EFFECT and before.generation == after.generation
        database = self._world.database
        lives = database.leases.get(before.owner, 0) > database.now_ms()
        is_running = before.state == JournalState.CLAIMED and lives
        is_open = is_running or before.state == JournalState.IN_DOUBT
        run = (before.request_id, before.generation, by)
        is_another = run in self._grants and (*run, before.claimed_at) not in self._claims
        if is_word and is_open and is_another and before.claimed_at is not None:
            said = f"{by} ended its own {_said(after)}, and {_said(before)} stood there"
            raise Violation("an end tells of its own run", said)

    def _alone(self, row: Row) -> None:
        world = self._world
        key, forgotten = world.key_of(row), world.losses.forgotten
        if key is None or row.request_id in forgotten:
            return
        for other in world.database.rows.values():
            is_open = other.state in (JournalState.CLAIMED, JournalState.RETRYING)
            is_other = other.request_id != row.request_id and other.request_id not in forgotten
            if is_open and is_other and (other.topic, world.key_of(other)) == (row.topic, key):
                raise Violation(
                    "requests of a key run one at a time", f"{_said(row)} beside {_said(other)}"
                )

    def _ended(self, row: Row, by: str) -> None:
        if row.request_id in self._world.losses.forgotten and any(
            run.worker_id != by for run in self._runs[row.request_id]
        ):
            self._world.losses.excused.add(order_of(row.request_id))
        if row.by is not None:
            self._stands_in(row, row.by)
        charges = self._world.bank.charges[row.request_id]
        self._was_pruned(row.request_id, row)
        self._deny(row, by)
        if self._is_excused(row.request_id):
            return
        if row.state == JournalState.SUCCEEDED and charges != 1:
            raise Violation("no wrong outcome", f"{_said(row)} with {charges} charges")
        if row.state in _WITHOUT_EFFECT and charges:
            raise Violation("no wrong outcome", f"{_said(row)} although it was charged")

    def _stands_in(self, row: Row, by: str) -> None:
        other = self._world.database.rows.get(by)
        keys = [None if one is None else self._world.key_of(one) for one in (row, other)]
        skip = (row.request_id, row.topic, keys[0], by)
        if other is not None and other.state == JournalState.SUCCEEDED and keys[0] == keys[1]:
            self._skips.add(skip)
        elif not self._is_skip_again(skip):
            said = f"{_said(row)} by {by}: {other and _said(other)}"
            raise Violation("only what has succeeded stands in for others", said)

    def _is_skip_again(self, skip: tuple[str, str, bytes | None, str]) -> bool:
        """Whether a skip is written again that the database has forgotten with the success.

        The charge of that stands, and its worker or its status brings the end back.
        """
        by = skip[-1]
        is_forgotten = by in self._world.losses.forgotten
        return skip in self._skips and is_forgotten and self._world.bank.charges[by] == 1

    def _followed(self, before: Row, after: Row, *, is_again: bool) -> None:
        """Look at a row that was written over another one.

        Args:
            is_again: whether the journal has had this very end of this run before.
        """
        if (before.state, before.generation, before.owner) == (
            after.state,
            after.generation,
            after.owner,
        ):
            return
        is_same_run = before.generation == after.generation
        match before.state:
            case JournalState.CLAIMED:
                # A client was told of a later run than the one that the database still knows of.
                is_told = before.request_id in self._world.losses.forgotten
                is_allowed = is_same_run or after.state == JournalState.CLAIMED or is_told
            case JournalState.IN_DOUBT:
                is_resolved = is_same_run and after.state in (
                    JournalState.SUCCEEDED,
                    JournalState.FAILED,
                )
                # Its client was told of a later run than the pruned journal counts: a doubt still,
                # but where that was the success which was pruned.
                is_pruned = after.state == JournalState.SUCCEEDED and is_again
                is_raised = after.state == JournalState.IN_DOUBT or is_pruned
                is_raised = is_raised and after.generation > before.generation
                is_allowed = is_resolved or (before.is_forgotten and is_raised)
            case JournalState.FAILED:
                is_asked = self._asked.get(before.request_id, 0) >= before.generation
                is_allowed = before.resend and after.attempt > before.attempt and is_asked
            case _:
                is_allowed = False
        # Its client was told of a later run that the database has lost: the same end goes above it.
        is_above = before.generation < after.generation and _end(before) == _end(after)
        is_allowed = is_allowed or (is_above and before.request_id in self._world.losses.forgotten)
        is_allowed = is_allowed or self._is_known_again(before, after)
        if not is_allowed and not self._is_excused(after.request_id):
            raise Violation("what has ended stays", f"{_said(before)} became {_said(after)}")
        is_late = self._world.database.now_ms() >= after.deadline_at
        # What was claimed in time, and forgotten since, is written again whenever that is found.
        is_again = after.request_id in self._world.losses.forgotten
        if not is_same_run and after.state == JournalState.CLAIMED and is_late and not is_again:
            raise Violation("no claim past the deadline", _said(after))

    def _is_known_again(self, before: Row, after: Row) -> bool:
        """Whether a run that may have acted comes over the end of who knew of no claim."""
        was_denied = before.claimed_at is None and before.state in _WITHOUT_EFFECT
        is_forgotten = after.request_id in self._world.losses.forgotten
        was_granted = (after.request_id, after.generation, after.owner) in self._grants
        may_say_so = was_denied and is_forgotten and was_granted and after.state in _WITH_EFFECT
        return may_say_so and self._may_have_acted(after)

    def _may_have_acted(self, row: Row) -> bool:
        """Whether a request was charged, or a child of this row's worker may have been about to."""
        name = (row.request_id, row.owner)
        is_charged = self._world.bank.charges[row.request_id] > 0
        return is_charged or (name in self._given and name in self._marked)

    def _taken(self, before: Row, after: Row, by: str) -> None:
        run = (before.request_id, before.generation, by)
        if (*run, before.claimed_at) in self._claims:
            return  # it ends a run of its own, whoever may have gone on with it since
        is_own = before.generation == after.generation and run in self._grants
        is_lost = is_own and before.request_id in self._world.losses.forgotten
        if is_lost and after.state in _WITH_EFFECT and self._may_have_acted(after):
            return  # its claim is lost, and another worker has claimed it anew
        database = self._world.database
        if self._is_excused(before.request_id):
            return
        if database.leases.get(before.owner, 0) > database.now_ms():
            raise Violation(
                "nobody takes the claims of a worker whose lease holds",
                f"{by} took {_said(before)}",
            )
        if self._world.was_kept_from_renewing(before.owner):
            raise Violation(
                "nobody sweeps for one lease after the database's return",
                f"{by} took {_said(before)}, whose owner lives",
            )

    def _published(self, row: Row) -> None:
        if (row.request_id, row.generation, row.state) not in self._confirmed:
            raise Violation("published_at says that Redis has it", f"{_said(row)} was never told")

    # statuses ------------------------------------------------------------------------------

    def told(
        self, before: Mapping[str, str] | None, write: StatusWrite, refused: Refused | None
    ) -> None:
        """Look at a status that Redis has taken, or refused because what stands there is newer."""
        name = (write.request_id, write.generation, str(write.state))
        if refused is None or refused.reason is not RefusalReason.PAYLOAD:
            self._confirmed.add(name)
        if refused is not None:
            self._left_alone(before, write)
            return
        if write.generation and write.state in FINAL and name not in self.states:
            raise Violation("no wrong final status", f"{name} was never in the journal")
        if before is None or before["payload_sha256"] != write.payload_sha256:
            return
        row = self._world.database.rows.get(write.request_id)
        if write.restore and row is not None and before.get("topic") != row.topic:
            return  # of another topic's request under this id the journal says what is true
        if not self._is_excused(write.request_id):
            self._stepped(before, write)

    def _left_alone(self, before: Mapping[str, str] | None, write: StatusWrite) -> None:
        """Look whether a refused write has changed who has a request.

        Only a worker that has it may say so, of itself, and never that nobody has it.
        """
        had_it = None if before is None else before.get("worker")
        has_it = self._world.redis.hashes.get(write.request_id, {}).get("worker")
        gives_up = write.state is Told.ACCEPTED and write.held_by is not None
        if has_it != had_it and not (gives_up and has_it == f"{had_it}-disowned"):
            said = f"{write.request_id} of {had_it!r} became one of {has_it!r}: {write.state}"
            raise Violation("a refused word takes no request from its worker", said)

    def _stepped(self, before: Mapping[str, str], write: StatusWrite) -> None:
        state, attempt = Told(before["status"]), int(before["attempt"])
        generation = int(before.get("generation", 0))
        said = f"{write.request_id}: {state} ({generation}, attempt {attempt}) became {write.state}"
        is_claimed = write.state not in BEFORE_CLAIM
        if is_claimed and write.generation < generation:
            raise Violation("an older generation overwrites nothing", said)
        if write.attempt < attempt:
            repeats = state in BEFORE_CLAIM and write.generation <= generation
            if write.state not in FINAL or repeats:
                raise Violation("an older attempt overwrites nothing", said)
        if state not in FINAL or state is write.state:
            return
        is_resolved = state is Told.IN_DOUBT and write.state in (Told.SUCCEEDED, Told.FAILED)
        is_asked = self._asked.get(write.request_id, 0) >= generation
        is_reopened = state is Told.FAILED and before.get("resend") == "1" and is_asked
        # A resender that finds no payload knows nothing of the journal, which is the truth.
        was_nobodys = generation == 0 and write.generation > 0
        if not is_resolved and not is_reopened and not was_nobodys:
            raise Violation("a final status does not change", said)

    def looked_after(self) -> None:
        """Look whether a worker that lives still has what it is told to have accepted."""
        world = self._world
        if world.redis.went_back:
            return  # what was given up since reads as accepted again, until it is silent for long
        for request_id, status in world.redis.hashes.items():
            one = world.processes.get(status.get("worker", ""))
            if status["status"] != Told.ACCEPTED or one is None or not one.alive or one.busy:
                continue
            if world.is_disputed(request_id) or request_id in world.losses.forgotten:
                continue  # of two payloads under one id, the other's status may be told instead
            partition = status["topic"], int(status["partition"])
            is_read_again = world.kafka.positions[partition] <= int(status["offset"])
            is_taken_up = request_id in world.database.rows
            if not is_read_again and not is_taken_up and not one.holds(request_id):
                raise Violation(
                    "a worker that lives has what it has accepted",
                    f"{one.name} has forgotten {request_id}",
                )


def _may_follow(earlier: SimulatedRun, run: SimulatedRun) -> bool:
    """Whether a run may begin although another of its request has begun (docs: Effects and doubt).

    Of a marked run the beginning says nothing: it is its effect that the bank counts. What its own
    worker has declared is what counts for a run; where two declare it otherwise, the stricter one.
    """
    both = {earlier.handler.effect, run.handler.effect}
    if both != {EffectKind.EXTERNAL} or earlier.act is Act.DECLARES:
        return True
    match earlier.handler.in_doubt, run.handler.in_doubt:
        case InDoubtPolicy.RETRY_SAME_KEY, InDoubtPolicy.RETRY_SAME_KEY:
            return True
        case InDoubtPolicy.RETRY_SAME_KEY | InDoubtPolicy.QUERY, InDoubtPolicy.QUERY:
            return earlier.key != run.key
    return False


def _end(row: Row) -> tuple[str | None, ...]:
    return row.state, row.owner, row.code, row.message, row.result, row.by


def _told_end(row: Row) -> tuple[str | None, ...]:
    """Return an end as its client was told of it: of no result as of one that is null."""
    return _end(row._replace(result=None if row.result == "null" else row.result))


def _said(row: Row) -> str:
    return f"{row.request_id}/{row.generation} {row.state} of {row.owner}"
