"""The plan of a redrive, as the journal stores it. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass

from consumer.dlq.filter import Filter
from consumer.dlq.letter import DeadLetter
from consumer.dlq.setting import CannotBeSet, Setting
from consumer.journal.redrive_rule import Redrivable, Wish

MAX_REDRIVES = 3
LARGEST_CHUNK = 1000
# With a rate, letters are sent back in portions of so many seconds.
CHUNK_S = 0.5


@dataclass(frozen=True, slots=True)
class RedrivePlan:
    """The letters that are sent back, and the way.

    Attributes:
        filter: chooses the letters.
        topics: read the dead letter topics of these; by default of all the group's topics.
        dlqs: read dead letter topics by their own names instead.
        deadline_s: seconds from the reopening to the new deadline.
        max_redrives: how often a request may be sent back.
        takes_unknown: whether letters without a journal row are sent as well.
        setting: a value to replace, which makes each letter a new request.
    """

    filter: Filter
    topics: frozenset[str] = frozenset()
    dlqs: frozenset[str] = frozenset()
    deadline_s: float = 3600.0
    max_redrives: int = MAX_REDRIVES
    takes_unknown: bool = False
    setting: Setting | None = None

    @property
    def valid_ms(self) -> int:
        """Milliseconds from the reopening to the new deadline."""
        return int(self.deadline_s * 1000)

    def wish(self, redrive_id: str, owed: frozenset[str] = frozenset()) -> Wish:
        """Return the conditions that the journal checks.

        Args:
            owed: requests that were reopened, and whose records Kafka does not have.
        """
        return Wish(
            redrive_id=redrive_id,
            owed=owed,
            max_redrives=self.max_redrives,
            takes_unknown=self.takes_unknown,
            replaces=self.setting is not None,
        )

    def set_anew(self, letter: DeadLetter) -> bytes | None:
        """Return the value of a letter's replacement; None where nothing is replaced.

        Raises:
            CannotBeSet: its value has no such place, or is no JSON.
        """
        return None if self.setting is None else self.setting.applied(letter.value)

    def fault_of(self, letter: DeadLetter, topics: Collection[str]) -> Redrivable | None:
        """Return why a letter cannot be sent back, as far as its own fields tell.

        Args:
            topics: the topics that exist.
        """
        if letter.home not in topics:
            return Redrivable.NO_TOPIC
        try:
            self.set_anew(letter)
        except CannotBeSet:
            return Redrivable.CANNOT_BE_SET
        return None

    def to_json(self) -> str:
        """Return it as text that `from_json` reads."""
        given = {name: getattr(self, name) for name in ("deadline_s", "max_redrives")}
        return json.dumps(
            given
            | {
                "filter": json.loads(self.filter.to_json()),
                "topics": sorted(self.topics),
                "dlqs": sorted(self.dlqs),
                "takes_unknown": self.takes_unknown,
                "setting": None if self.setting is None else asdict(self.setting),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> RedrivePlan:
        """Return the plan that `to_json` wrote.

        Raises:
            ValueError: the text was not written by `to_json`.
        """
        given = json.loads(text)
        setting = given.pop("setting")
        if setting is not None:
            setting = Setting(tuple(setting["path"]), setting["value"])
        return cls(
            **given
            | {
                "filter": Filter.from_json(json.dumps(given["filter"])),
                "topics": frozenset(given["topics"]),
                "dlqs": frozenset(given["dlqs"]),
                "setting": setting,
            }
        )


def chunk_size(rate: float | None) -> int:
    """Return how many letters are sent back in one portion.

    Args:
        rate: how many a second at most.
    """
    if rate is None:
        return LARGEST_CHUNK
    return max(1, min(LARGEST_CHUNK, int(rate * CHUNK_S)))
