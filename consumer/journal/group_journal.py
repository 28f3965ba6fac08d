"""The base of all classes that reach the journal of one group over their own connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from consumer.journal.actions import ACTIONS
from consumer.journal.batch import SHAPES, BatchShape
from consumer.journal.schema import check_version, read_journal_id
from consumer.journal.session import JournalSession
from feedback.observer import Observer
from feedback.settings.settings import Settings


class GroupJournal:
    """The journal of one group; for one thread, on a connection of its own.

    It connects when it is first used, and again by itself after a fault. Each method raises
    JournalUnavailable where the database is away, and JournalVersionError where its tables are
    missing. A call may be repeated: the outcome of a write is unknown then.

    Args:
        url: `sqlite:///path` or `postgresql+psycopg://...`.
        statement_timeout_s: the longest wait for a connection, for a lock and for a statement,
            each.

    Raises:
        SettingsError: the URL is malformed.
        NotAvailable: the driver for this database is not installed.
    """

    # The batches that it loads.
    _shapes: ClassVar[Sequence[BatchShape]] = ()

    def __init__(self, url: str, *, group: str, statement_timeout_s: float = 10.0) -> None:
        self._group = group
        self._session = JournalSession(
            url,
            timeout_s=statement_timeout_s,
            at_connect=[shape.ddl for shape in self._shapes],
        )

    @classmethod
    def from_settings(cls, settings: Settings, **further: Any) -> Self:
        """Return that of the settings' group; it connects when it is first used.

        Args:
            further: the other arguments of the class.
        """
        return cls(
            settings.journal.url,
            group=settings.kafka.group,
            statement_timeout_s=settings.journal.timeout_s,
            **further,
        )

    @property
    def group(self) -> str:
        """The group."""
        return self._group

    def timed(self, observers: Sequence[Observer], purpose: str) -> Self:
        """Let observers hear of each transaction from now on; return this journal.

        Args:
            purpose: of all of them, one of a few words.
        """
        self._session.observers, self._session.purpose = observers, purpose
        return self

    def close(self) -> None:
        """Close the connection; the next call opens one again."""
        self._session.close()


class ActingJournal(GroupJournal):
    """A journal where a person acts, which is noted; see `GroupJournal`.

    An act raises JournalMoved, and has changed nothing, where the URL leads to another database
    when its transaction begins: nobody would see it in the former one.
    """

    _shapes = (*SHAPES, ACTIONS)

    def journal_id(self) -> str:
        """Return the random id of a journal that has this program's tables.

        Raises:
            JournalVersionError: it has none, older or newer ones.
        """
        with self._session.transaction(read_only=True) as connection:
            check_version(connection)
            return read_journal_id(connection)
