"""The contract's promises, looked at after every step. It knows the truth, and none of the rules
that are to keep it: what it says is said again from the contract, and nothing is taken over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from consumer.declaration import EffectKind, InDoubtPolicy
from consumer.journal import Applied, Finish, FinishKind, Row, State
from consumer.pool import Job
from feedback.envelope import payload_sha256
from feedback.status import BEFORE_CLAIM, FINAL, Refusal
from feedback.status import State as Told
from feedback.statuses import Refused, StatusWrite
from tests.simulation.processes import Violation
from tests.simulation.requests import Act
from tests.simulation.tables import Change

if TYPE_CHECKING:
    from tests.simulation.pool import SimulatedRun
    from tests.simulation.world import World

_WITHOUT_EFFECT = (State.FAILED, State.EXPIRED)


class Watch:
    """Sees all that happens, and raises `Violation` when it must not.

    Attributes:
        states: every (request_id, generation, state) that the journal ever had.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.states: set[tuple[str, int, str]] = set()
        self._grants: set[tuple[str, int, str]] = set()
        self._confirmed: set[tuple[str, int, str]] = set()
        self._runs: dict[str, list[SimulatedRun]] = defaultdict(list)

    # dispatch and runs ---------------------------------------------------------------------

    def dispatched(self, worker_id: str, jobs: Sequence[Job]) -> None:
        """Look at what is about to be given to a child."""
        for job in jobs:
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
            row = self._world.database.rows[job.request_id]
            if payload_sha256(job.key, job.value) != row.payload_sha256:
                raise Violation("another payload never runs", f"{name} is not what was claimed")

    def started(self, run: SimulatedRun) -> None:
        """Look at a run that begins."""
        before = self._runs[run.job.request_id]
        for earlier in before:
            if not _may_follow(earlier, run):
                raise Violation(
                    "no second run where the effect forbids it",
                    f"{run.name} starts after {earlier.name}, which {earlier.act}",
                )
        before.append(run)

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
            if not owns or row.state != State.CLAIMED:
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
        self.states.add((after.request_id, after.generation, after.state))
        if before is not None and before.state == State.CLAIMED and after != before:
            self._taken(before, by)
        if after.state == State.CLAIMED:
            self._grants.add((after.request_id, after.generation, after.owner))
        elif before is None or (before.state, before.generation) != (
            after.state,
            after.generation,
        ):
            self._ended(after)
        if before is None:
            return
        self._followed(before, after)
        if before.published_at is None and after.published_at is not None:
            self._published(after)

    def _ended(self, row: Row) -> None:
        charges = self._world.bank.charges[row.request_id]
        if row.state == State.SUCCEEDED and charges != 1:
            raise Violation("no wrong outcome", f"{_said(row)} with {charges} charges")
        if row.state in _WITHOUT_EFFECT and charges:
            raise Violation("no wrong outcome", f"{_said(row)} although it was charged")

    def _followed(self, before: Row, after: Row) -> None:
        if (before.state, before.generation, before.owner) == (
            after.state,
            after.generation,
            after.owner,
        ):
            return
        is_same_run = before.generation == after.generation
        match before.state:
            case State.CLAIMED:
                is_allowed = is_same_run or after.state == State.CLAIMED
            case State.IN_DOUBT:
                is_allowed = is_same_run and after.state in (State.SUCCEEDED, State.FAILED)
            case State.FAILED:
                is_allowed = before.resend and after.attempt > before.attempt
            case _:
                is_allowed = False
        if not is_allowed:
            raise Violation("what has ended stays", f"{_said(before)} became {_said(after)}")
        is_late = self._world.database.now_ms() >= after.deadline_at
        if not is_same_run and after.state == State.CLAIMED and is_late:
            raise Violation("no claim past the deadline", _said(after))

    def _taken(self, before: Row, by: str) -> None:
        if (before.request_id, before.generation, by) in self._grants:
            return  # it ends a run of its own, whoever may have gone on with it since
        database = self._world.database
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
        if refused is None or refused.reason is not Refusal.PAYLOAD:
            self._confirmed.add(name)
        if refused is not None:
            return
        if write.generation and write.state in FINAL and name not in self.states:
            raise Violation("no wrong final status", f"{name} was never in the journal")
        if before is None or before["payload_sha256"] != write.payload_sha256:
            return
        self._stepped(before, write)

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
        is_reopened = state is Told.FAILED and before.get("resend") == "1"
        # A resender that finds no payload knows nothing of the journal, which is the truth.
        was_nobodys = generation == 0 and write.generation > 0
        if not is_resolved and not is_reopened and not was_nobodys:
            raise Violation("a final status does not change", said)

    def looked_after(self) -> None:
        """Look whether a worker that lives still has what it is told to have accepted."""
        world = self._world
        for request_id, status in world.redis.hashes.items():
            one = world.processes.get(status.get("worker", ""))
            if status["status"] != Told.ACCEPTED or one is None or not one.alive or one.busy:
                continue
            if world.is_disputed(request_id):
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
    """Whether a run may begin although another of its request has begun (contract, section 9).

    Of a marked run the beginning says nothing: it is its effect that the bank counts.
    """
    if run.handler.effect is not EffectKind.EXTERNAL or earlier.act is Act.DECLARES:
        return True
    match run.handler.in_doubt:
        case InDoubtPolicy.RETRY_SAME_KEY:
            return True
        case InDoubtPolicy.QUERY:
            return earlier.key != run.key
    return False


def _said(row: Row) -> str:
    return f"{row.request_id}/{row.generation} {row.state} of {row.owner}"
