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
from feedback.kafka.admin import administrator
from feedback.kafka.administrator import NewTopic
from feedback.kafka.scan import KafkaScan
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.settings.settings import Settings
from tests.consumer.dlq.redrive.planting import plant
from tests.eventually import eventually

LETTERS = 250


class Planted:
    """Letters without a worker."""

    def __init__(self, settings: Settings, config: Path, topic: str) -> None:
        self.settings = settings
        self.config = config
        self.topic = topic

    @property
    def box(self) -> str:
        """The dead letter topic."""
        return dead_letter_topic(self.topic, self.settings.kafka.group)

    def box_made_anew(self) -> None:
        """Delete the dead letter topic, and make it anew with letters of other failures."""
        settings = self.settings
        with administrator(settings.kafka, timeout_s=30.0) as admin:
            admin.delete_topics([self.box])
            eventually(lambda: self.box not in admin.topics(), timeout_s=30)
            admin.make({self.box: NewTopic(4, 1)})
        plant(
            kafka=settings.kafka.bootstrap_servers,
            journal_url=settings.journal.url,
            group=settings.kafka.group,
            topic=self.topic,
            letters=LETTERS,
            begin=1000,
        )

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
