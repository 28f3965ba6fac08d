"""The progress of a redrive: pages under way, counts, and reopened requests. Pure.

Pages pass one behind the other: while one is being sent, the next is being reopened. The journal
stores the positions behind the pages that are done, and the names of the requests that were
reopened for the others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from consumer.journal.records import Published
from consumer.journal.redrive.redrive_row import Offsets, Redrive, SavedProgress
from consumer.journal.redrive.redrive_rule import IN_WORDS, Redrivable
from feedback.kafka.values import Partition

READ, CHOSEN, SENT, NO_LETTER = "read", "chosen", "sent", "no_letter"


class NamedResults:
    """The results of the requests that were named by their ids.

    Args:
        found: the results that earlier processes have found.
    """

    def __init__(
        self, named: Collection[str], found: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.of_named: dict[str, str] = dict.fromkeys(sorted(named), NO_LETTER) | dict(found)

    @property
    def found(self) -> dict[str, str]:
        """The results of the requests that have a letter."""
        return {name: what for name, what in self.of_named.items() if what != NO_LETTER}

    def became(self, request_id: str, what: str) -> None:
        """Remember the result of a letter, where its request was named."""
        # If a request has several letters, SENT is its result.
        if self.of_named.get(request_id) not in (None, SENT):
            self.of_named[request_id] = what


class PageUnderWay:
    """A page of letters under way.

    Attributes:
        counts: its letters by their results.
        names: the requests that may be reopened for it.
        is_handed_over: whether all of it is sent, or being sent.
    """

    def __init__(
        self, answers: NamedResults, positions: Mapping[Partition, int], *, read: int, total: int
    ) -> None:
        self.positions = positions
        self.read = read
        self.total = total
        self.counts: Counter[str] = Counter()
        self.names: set[str] = set()
        self.marks: Offsets = {}
        self.published: list[Published] = []
        self.is_handed_over = False
        self._answers = answers

    def add(self, name: str, count: int) -> None:
        """Count letters."""
        self.counts[name] += count

    def became(self, request_id: str, what: str) -> None:
        """Count one letter, and remember it where its request was named."""
        self.counts[what] += 1
        self._answers.became(request_id, what)

    def reopening(self, request_ids: Iterable[str], marks: Mapping[Partition, int]) -> None:
        """Note that these requests are about to be reopened, and where their topics end now."""
        self.names.update(request_ids)
        self.marks = older_first(self.marks, marks)


class RedriveProgress:
    """The progress of a redrive.

    Args:
        stands: the redrive as it was saved.
        sent: those of its unconfirmed requests whose records Kafka has.
        answers: the results of the requests that were named.

    Attributes:
        sent: requests that an earlier process has sent, and whose letters were not read again yet.
        owed: requests that an earlier process has reopened and not sent.
        left_out: of topics that were made anew, how many offsets of each are not read.
    """

    def __init__(self, stands: Redrive, sent: Collection[str], answers: NamedResults) -> None:
        self.answers = answers
        self._inherited = set(stands.unconfirmed)
        self._inherited_marks = dict(stands.marks)
        self.sent = self._inherited & set(sent)
        self.owed = self._inherited - self.sent
        self.left_out = Counter(stands.left_out)
        self._positions: Mapping[Partition, int] = stands.positions
        self._done = Counter(stands.counts)
        self._published: list[Published] = []
        self._pages: deque[PageUnderWay] = deque()

    @property
    def counts(self) -> dict[str, int]:
        """All counts, with those of the pages under way."""
        return dict(self._done + self._under_way)

    @property
    def _under_way(self) -> Counter[str]:
        return sum((one.counts for one in self._pages), Counter())

    def leave_out(self, topics: Mapping[str, int], positions: Mapping[Partition, int]) -> None:
        """Note offsets that are not read, by their topics, and the positions behind them."""
        self.left_out.update(topics)
        self._positions = positions

    def begin(self, positions: Mapping[Partition, int], *, read: int, total: int) -> PageUnderWay:
        """Return a new page, behind the others."""
        one = PageUnderWay(self.answers, positions, read=read, total=total)
        self._pages.append(one)
        return one

    def finish(self) -> PageUnderWay | None:
        """Note that the pages handed over are sent; return the last page that is done now."""
        last = None
        while self._pages and self._pages[0].is_handed_over:
            last = self._pages.popleft()
            self._positions = last.positions
            self._done += last.counts
            self._published += last.published
            self._inherited -= last.names
        return last

    def so_far(self) -> SavedProgress:
        """Return the progress to save: pages that are done, and requests reopened behind them."""
        names = set(self._inherited)
        marks = self._inherited_marks if self._inherited else {}
        for one in self._pages:
            names |= one.names
            marks = older_first(marks, one.marks)
        return SavedProgress(
            positions=self._positions,
            marks=marks,
            unconfirmed=names,
            counts=dict(self._done),
            named=self.answers.found,
            published=tuple(self._published),
            under_way=dict(self._under_way),
            left_out=dict(self.left_out),
        )

    def saved(self, so_far: SavedProgress) -> None:
        """Note that this progress is in the journal."""
        del self._published[: len(so_far.published)]


def older_first(old: Mapping[Partition, int], new: Mapping[Partition, int]) -> Offsets:
    """Return the marks of both; where both have a topic, the old ones."""
    marked = {topic for topic, _ in old}
    return {**old, **{place: end for place, end in new.items() if place[0] not in marked}}


_OR_DISCARD = "send it in the other system, or discard the letter"
# Of letters of other systems: the row is of this group, which has read the same record.
_THEIRS_IN_WORDS = {
    Redrivable.RUNNING: f"this group runs it: CLAIMED or RETRYING; {_OR_DISCARD}",
    Redrivable.DONE: f"this group ran it: SUCCEEDED or SKIPPED; {_OR_DISCARD}",
    Redrivable.IN_DOUBT: f"this group ran it: IN_DOUBT; resolve that, {_OR_DISCARD}",
    Redrivable.EXPIRED: f"this group had it: EXPIRED; {_OR_DISCARD}",
    Redrivable.PAYLOAD_MISMATCH: f"this group's row is of another payload; {_OR_DISCARD}",
}


def left_in_words(left: Mapping[str, int], *, is_theirs: bool) -> dict[str, int]:
    """Return why letters were not sent, in words.

    Args:
        left: as `refusal_counts` returns it.
        is_theirs: whether they were read from topics of other systems.
    """
    words = {**IN_WORDS, **_THEIRS_IN_WORDS} if is_theirs else IN_WORDS
    return {words[Redrivable(name)]: count for name, count in left.items()}


def left_out_in_words(left_out: Mapping[str, int]) -> dict[str, int]:
    """Return why offsets were not read, in words; see `RedriveProgress`."""
    return {
        f"{topic} was deleted and made anew, and has other letters there now": count
        for topic, count in left_out.items()
    }


def refusal_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return why letters were not sent, and how many; the most first."""
    reasons = {one.value for one in Redrivable} - {Redrivable.SEND.value, SENT}
    found = {name: count for name, count in counts.items() if name in reasons and count}
    return dict(sorted(found.items(), key=lambda one: -one[1]))
