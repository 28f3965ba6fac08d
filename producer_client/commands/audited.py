"""Lines of an audit's `resend.jsonl`: checks that they still hold when they are sent.

An audit offers a request for sending because the journal has no row of it. Once the file was sent,
the journal has a row, and a second sending is only answered; but pruning deletes rows. So each line
says when the journal was read, and the journal is asked how far it has been pruned since.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import BIGINT, Text, column, func, select, table
from sqlalchemy.exc import DBAPIError

from feedback.errors import NotAvailable, SettingsError
from feedback.settings.settings import Settings
from feedback.sql.faults import first_line
from feedback.sql.read_only import open_reader

TIMEOUT_S = 10.0

_META = table("onceward_meta", column("name", Text), column("value", Text))
_FORGOTTEN = table(
    "onceward_forgotten",
    column("group", Text),
    column("topic", Text),
    column("deadline_at", BIGINT),
)


class Audited(NamedTuple):
    """The audit that wrote a line.

    Args:
        group: the consumer group of the request.
        journal: the journal's id.
        read_at: epoch ms by the database's clock, when the journal was read.
    """

    group: str
    journal: str
    read_at: int


def audited_of(found: Any) -> Audited:
    """Return the audit in a line's `audit` object.

    Raises:
        ValueError: no audit writes such an object.
    """
    if isinstance(found, dict):
        group, journal, read_at = (found.get(name) for name in Audited._fields)
        if isinstance(group, str) and isinstance(journal, str) and type(read_at) is int:
            return Audited(group, journal, read_at)
    raise ValueError("audit must have group, journal and read_at")


class JournalMark:
    """Asks the journal of `[journal] url` whether lines of an audit may still be sent.

    It is asked once for each audit and topic. Pruning deletes only rows past their deadline, so no
    request that is sent now is forgotten before it has ended.

    Args:
        settings: the group, and the journal's URL.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asked: set[tuple[Audited, str]] = set()

    def check(self, audited: Audited, topic: str) -> None:
        """Return when a line may be sent.

        Args:
            topic: of the line.

        Raises:
            SettingsError: the line is of another group or journal, or requests that were sent after
                it was written may have been pruned.
            NotAvailable: the journal cannot be read.
        """
        if (audited, topic) in self._asked:
            return
        group = self._settings.kafka.group
        if audited.group != group:
            raise SettingsError(f"it is of group {audited.group}, and [kafka] group is {group}")
        journal, forgotten_to = self._ask(group, topic)
        if audited.journal and audited.journal != journal:
            raise SettingsError(
                f"it is of the journal {audited.journal}, and [journal] url leads to {journal}"
            )
        if forgotten_to >= audited.read_at:
            raise SettingsError(
                "its audit is too old: requests that were sent after it have been pruned, and this "
                "one may be among them; judge the day again (onceward-audit run --again) and send "
                "its new file"
            )
        self._asked.add((audited, topic))

    def _ask(self, group: str, topic: str) -> tuple[str, int]:
        """Return the journal's id, and the latest deadline of the pruned rows of a topic."""
        engine = open_reader(self._settings.journal.url, timeout_s=TIMEOUT_S)
        latest = select(func.max(_FORGOTTEN.c.deadline_at)).where(
            _FORGOTTEN.c.group == group, _FORGOTTEN.c.topic == topic
        )
        named = select(_META.c.value).where(_META.c.name == "journal_id")
        try:
            with engine.connect() as connection:
                return (
                    str(connection.execute(named).scalar() or ""),
                    int(connection.execute(latest).scalar() or 0),
                )
        except DBAPIError as error:
            raise NotAvailable(
                "these lines are of an audit, and only the journal knows whether they may still be "
                f"sent; it cannot be read ([journal] url): {first_line(error.orig)}"
            ) from error
        finally:
            engine.dispose()
