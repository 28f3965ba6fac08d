"""Letters that lie in a topic of a group without a worker, and what a redrive made of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from sqlalchemy import NullPool, create_engine, select
from sqlalchemy.engine import RowMapping

from consumer.dlq.redrive.record import sent_by
from consumer.journal.redrive.redrive_row import Redrive
from consumer.journal.redrive.redrive_work import RedriveWork
from consumer.journal.tables import action
from feedback.kafka.scan import KafkaScan
from feedback.settings.settings import Settings

LETTERS = 250


class Planted:
    """Letters without a worker."""

    def __init__(self, settings: Settings, config: Path, topic: str) -> None:
        self.settings = settings
        self.config = config
        self.topic = topic

    def sent(self, redrive_id: str) -> Counter[str]:
        """Return how often each request was sent back."""
        with KafkaScan(self.settings.kafka, committed_only=False) as scan:
            pages = scan.pages(scan.spans([self.topic]))
            found = [sent_by(one.headers, redrive_id) for page in pages for one in page.records]
        return Counter(one for one in found if one is not None)

    def actions(self) -> list[RowMapping]:
        """Return what was done, in order."""
        engine = create_engine(self.settings.journal.url, poolclass=NullPool)
        with engine.connect() as connection:
            return list(connection.execute(select(action).order_by(action.c.id)).mappings())

    def redrives(self) -> list[Redrive]:
        """Return the redrives of the group."""
        work = RedriveWork(self.settings.journal.url, group=self.settings.kafka.group, owner="x")
        found = work.latest(9)
        work.close()
        return found

    def redrive(self) -> Redrive:
        """Return the only one."""
        (found,) = self.redrives()
        return found
