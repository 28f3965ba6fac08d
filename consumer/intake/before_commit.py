"""A feature's hook between the poll of records and the commit of their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Received


class PreparedRecords(NamedTuple):
    """Records that were prepared.

    Args:
        received: those that may be committed.
        left: those that are read again: they could not be prepared.
    """

    received: list[Received]
    left: list[Received]


class BeforeCommit:
    """Prepares records in the intake's thread, which waits for it; this one has nothing to do.

    If the process dies meanwhile, the records are read again, and prepared again.
    """

    def prepare(self, received: Sequence[Received]) -> PreparedRecords:
        """Return the records that may be committed, and those that are read again."""
        return PreparedRecords([*received], [])

    def read_by_nobody(self, deliveries: Sequence[Delivery]) -> None:
        """Hear of requests that were prepared and dropped, and that nobody reads again.

        Their commit was made without our knowledge, and their partition is another worker's now.
        """
