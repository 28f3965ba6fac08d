"""A journal whose rows a test writes by hand, as any program with the right to do so could."""

from __future__ import annotations

from sqlalchemy import Engine, NullPool, create_engine, insert

from consumer.journal.tables import request, run, worker
from tests.kit.databases import migrated


class HandWritten:
    """A migrated journal with no worker.

    Args:
        url: of an empty database.
        group: whose rows they are.
    """

    def __init__(self, url: str, group: str) -> None:
        migrated(url)
        self.url = url
        self.group = group
        self.engine: Engine = create_engine(url, poolclass=NullPool)

    def add_request(self, request_id: str, **given: object) -> None:
        """Add a finished row on partition 0 of `payments`."""
        values = {
            "group": self.group,
            "request_id": request_id,
            "topic": "payments",
            "partition": 0,
            "offset": 5,
            "payload_sha256": "a" * 64,
            "attempt": 1,
            "generation": 1,
            "effect_kind": "external",
            "deadline_at": 2**41,
            "state": "SUCCEEDED",
            "owner": "host-1-x",
            "claimed_at": 2**40,
            "finished_at": 2**40 + 1,
        }
        with self.engine.begin() as connection:
            connection.execute(insert(request).values(values | given))

    def add_run(self, request_id: str, **given: object) -> None:
        """Add a run of the same partition to the history."""
        values = {
            "group": self.group,
            "request_id": request_id,
            "generation": 1,
            "attempt": 1,
            "owner": "host-1-x",
            "topic": "payments",
            "partition": 0,
            "offset": 5,
            "outcome": "FAILED",
            "by_whom": "host-2-y",
        }
        with self.engine.begin() as connection:
            connection.execute(insert(run).values(values | given))

    def add_worker(self, worker_id: str, lease_until: int, *, group: str = "") -> None:
        """Add a lease."""
        values = {
            "worker_id": worker_id,
            "group": group or self.group,
            "lease_until": lease_until,
            "started_at": 1,
        }
        with self.engine.begin() as connection:
            connection.execute(insert(worker).values(values))

    def change(self, statement: str) -> None:
        """Run a statement and commit."""
        with self.engine.begin() as connection:
            connection.exec_driver_sql(statement)
