"""Letters that may run twice when they are sent back, as a person is warned of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from feedback.console.plurals import counted

# The options that take such letters.
UNKNOWN, AGAIN = "unknown", "again"


@dataclass(slots=True)
class RedriveRisks:
    """How many of the letters that would be sent have no row that keeps them from a second run.

    Attributes:
        unknown: without a row in the journal.
        again: those of them that were sent back before.
        sendings: how often they were, all in all.
    """

    unknown: int = 0
    again: int = 0
    sendings: int = 0

    def add(self, sent_before: int) -> None:
        """Count a letter without a row."""
        self.unknown += 1
        self.again += bool(sent_before)
        self.sendings += sent_before

    def words(self) -> Mapping[str, str]:
        """Return a warning for each option that takes some of them.

        >>> RedriveRisks(unknown=3).words()
        {'unknown': 'nothing says whether 3 letters without a journal row have run'}
        """
        said = {}
        if self.unknown:
            have = "has" if self.unknown == 1 else "have"
            without = f"{counted(self.unknown, 'letter')} without a journal row"
            said[UNKNOWN] = f"nothing says whether {without} {have} run"
        if self.again:
            was, they = ("was", "it") if self.again == 1 else ("were", "they")
            said[AGAIN] = (
                f"{counted(self.again, 'letter')} {was} sent back already: {they} may run twice"
            )
        return said
