"""Values of the port: those of our own that every engine takes and returns."""

from __future__ import annotations

from typing import NamedTuple

from feedback.errors import SecurityFault

# A topic's name, and the number of one of its partitions.
Partition = tuple[str, int]
# A topic's name, a partition and an offset in it.
Place = tuple[str, int, int]


class BrokersAway(NamedTuple):
    """Why no broker could be reached.

    Attributes:
        reason: of the last connection that failed, in one line; empty where none has.
        fault: the fault of security, where that is the cause.
    """

    reason: str = ""
    fault: SecurityFault | None = None


class ReadOn(NamedTuple):
    """How far a member has read a partition: no record lies between the two offsets.

    Args:
        after: behind the last record that was read, or where it is read again; None where none was.
        next: the next to read; -1 where that is not known.
    """

    after: int | None
    next: int
