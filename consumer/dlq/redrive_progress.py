"""How far a redrive is: what it has counted, and what it reopened since it was saved. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from consumer.journal.redrive_row import Place, Redrive
from consumer.journal.redrive_rule import Redrivable

READ, CHOSEN, SENT, NO_LETTER = "read", "chosen", "sent", "no_letter"


class Unconfirmed:
    """The requests behind the saved positions that may be reopened, and what is known of them.

    Args:
        stands: the redrive as it was saved.
        sent: those that Kafka has.

    Attributes:
        names: all of them.
        sent: those that an earlier process has sent, and that were not come upon again.
        owed: those that an earlier process has reopened and not sent.
        marks: ends of the topics before the first of them was sent.
    """

    def __init__(self, stands: Redrive, sent: Collection[str]) -> None:
        self.names = set(stands.unconfirmed)
        self.sent = self.names & set(sent)
        self.owed = self.names - self.sent
        self.marks = dict(stands.marks)

    def reopening(self, request_ids: Iterable[str], marks: Mapping[Place, int]) -> None:
        """Note that these are about to be reopened, and where their topics end now."""
        self.names.update(request_ids)
        # The oldest mark of a topic counts.
        marked = {topic for topic, _ in self.marks}
        self.marks.update({place: end for place, end in marks.items() if place[0] not in marked})

    def passed(self, request_ids: Iterable[str]) -> None:
        """Note that all is done about these, and will be saved."""
        self.names.difference_update(request_ids)
        if not self.names:
            self.marks = {}


class Tally:
    """Counts letters by what became of them.

    Args:
        counted: by earlier processes.
        named: requests that were asked for by their id, of which each is told what became of it.
        found: what earlier processes have found out about those.
    """

    def __init__(
        self,
        counted: Mapping[str, int],
        named: Collection[str],
        found: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.saved = Counter(counted)
        self._page: Counter[str] = Counter()
        self.of_named: dict[str, str] = dict.fromkeys(sorted(named), NO_LETTER) | dict(found)

    @property
    def found(self) -> dict[str, str]:
        """What became of those that were named and have a letter."""
        return {name: what for name, what in self.of_named.items() if what != NO_LETTER}

    @property
    def counts(self) -> dict[str, int]:
        """All that was counted."""
        return dict(self.saved + self._page)

    def add(self, name: str, count: int = 1) -> None:
        """Count letters."""
        self._page[name] += count

    def became(self, request_id: str, what: str) -> None:
        """Count one letter, and remember it where its request was named."""
        self.add(what)
        # Of several letters of a request the one that was sent is its answer.
        if self.of_named.get(request_id) not in (None, SENT):
            self.of_named[request_id] = what

    def page_saved(self) -> None:
        """Note that what was counted is in the journal."""
        self.saved += self._page
        self._page.clear()


def refused(counts: Mapping[str, int]) -> dict[str, int]:
    """Return why letters were not sent, and how many; the most first."""
    reasons = {one.value for one in Redrivable} - {Redrivable.SEND.value, SENT}
    found = {name: count for name, count in counts.items() if name in reasons and count}
    return dict(sorted(found.items(), key=lambda one: -one[1]))
