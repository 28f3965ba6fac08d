"""A journal falsified by hand, after a real worker has run a group's requests."""

from collections.abc import Iterable
from datetime import UTC, datetime

from tests.consumer.stage import Stage
from tests.eventually import eventually


def await_deadlines(stage: Stage, ids: Iterable[str]) -> None:
    """Return when the deadlines of these requests are a second past."""

    def is_past() -> bool:
        now_ms = datetime.now(UTC).timestamp() * 1000
        rows = [stage.row(one) for one in ids]
        return all(row is not None and row["deadline_at"] + 1000 < now_ms for row in rows)

    eventually(is_past, timeout_s=90, what="the deadlines to pass")


def lose(stage: Stage, request_id: str) -> None:
    """Take a request's row away."""
    stage.execute(f"DELETE FROM onceward_request WHERE request_id = '{request_id}'")


def run_twice(stage: Stage, request_id: str) -> None:
    """Let the history say that a request has succeeded before."""
    stage.execute(
        'INSERT INTO onceward_run ("group", request_id, generation, attempt, owner, topic, '
        '"partition", "offset", claimed_at, effect_at, ended_at, outcome, by_whom) '
        'SELECT "group", request_id, generation - 1, attempt, owner, topic, "partition", '
        "\"offset\", claimed_at, effect_at, finished_at, 'SUCCEEDED', owner "
        f"FROM onceward_request WHERE request_id = '{request_id}'"
    )
