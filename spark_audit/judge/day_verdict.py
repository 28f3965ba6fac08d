"""What makes a day incomplete, and the verdict that follows for the exit code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from feedback.errors import ExitCode, SettingsError
from spark_audit.findings import Finding
from spark_audit.stage.gaps import Gap
from spark_audit.stage.manifest import Manifest, TopicKind

# The topics that are named in a sentence.
_MOST = 5


def unseen_offsets(manifest: Manifest, gaps: Iterable[Gap]) -> Iterator[str]:
    """Yield a sentence for each stretch of the topics that nobody saw.

    Beside the gaps: where Kafka's records begin within the window, the records before are gone,
    unless an earlier run has judged up to there.
    """
    found = Counter((gap.finding, gap.topic) for gap in gaps)
    for finding, what in (
        (Finding.RETENTION_GAP, "records that Kafka deleted before they were delivered or judged"),
        (Finding.OFFSET_GAP, "offsets that are missing"),
    ):
        if topics := sorted({topic for kind, topic in found if kind is finding}):
            yield f"{what}, of {_named(topics)}"
    told = {topic for kind, topic in found if kind is Finding.RETENTION_GAP}
    judged = {(one.topic, one.partition): one.first for one in manifest.links if not one.is_by_time}
    deleted = {
        one.topic
        for one in manifest.partitions
        if one.kind == TopicKind.REQUEST
        and one.start == one.begin > judged.get((one.topic, one.partition), 0)
    }
    if topics := sorted(deleted - told):
        yield f"what Kafka deleted of {_named(topics)}: it may have been of this day"


def unseen_carried(gone: int) -> Iterator[str]:
    """Yield a sentence about the requests of earlier days of which nothing is left."""
    if gone:
        what = (
            "a request that an earlier day left"
            if gone == 1
            else (f"{gone} requests that earlier days left")
        )
        yield f"{what} open: neither a record in Kafka nor a row is left"


def _named(topics: list[str]) -> str:
    more = f" and {len(topics) - _MOST} more" if len(topics) > _MOST else ""
    return ", ".join(topics[:_MOST]) + more


_CONDITION = re.compile(r"\s*([a-z_]+)\s*(>=|>)\s*([0-9]{1,18})\s*", re.ASCII)


class DayVerdict(StrEnum):
    """The verdict on a day; incomplete: not everything could be seen."""

    GOOD = "good"
    BAD = "bad"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Condition:
    """A limit on the count of one finding, as in `lost>0`.

    Args:
        operator: `>` or `>=`.
    """

    finding: Finding
    operator: str
    limit: int

    def __str__(self) -> str:
        return f"{self.finding}{self.operator}{self.limit}"

    def is_met(self, count: int) -> bool:
        """Say whether a count makes the audit fail."""
        return count > self.limit or (self.operator == ">=" and count == self.limit)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and its reasons.

    Args:
        failed_on: the conditions that were met, in the order given.
    """

    verdict: DayVerdict
    failed_on: tuple[Condition, ...]

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the command (docs: Exit codes)."""
        match self.verdict:
            case DayVerdict.GOOD:
                return ExitCode.FINE
            case DayVerdict.BAD:
                return ExitCode.BAD_ANSWER
            case DayVerdict.INCOMPLETE:
                return ExitCode.NOT_AVAILABLE


def parse_fail_on(text: str) -> tuple[Condition, ...]:
    """Return the conditions of a list like `lost>0,ran_twice>=1`.

    Raises:
        SettingsError: names the part that is no condition.

    >>> [str(one) for one in parse_fail_on("lost>0, in_doubt >= 100")]
    ['lost>0', 'in_doubt>=100']
    """
    return tuple(_condition(part) for part in text.split(","))


def judge_counts(
    findings: Mapping[Finding, int], conditions: Sequence[Condition], *, unseen: Sequence[str]
) -> Judgement:
    """Return the verdict on a day.

    Args:
        findings: how often each was found; one that is missing was not.
        unseen: sentences about missing evidence. Any of them makes the verdict incomplete: a part
            of the evidence neither acquits nor accuses.
    """
    failed_on = tuple(one for one in conditions if one.is_met(findings.get(one.finding, 0)))
    if unseen:
        return Judgement(DayVerdict.INCOMPLETE, failed_on)
    return Judgement(DayVerdict.BAD if failed_on else DayVerdict.GOOD, failed_on)


def _condition(part: str) -> Condition:
    found = _CONDITION.fullmatch(part)
    if found is None:
        raise SettingsError(
            f"--fail-on: {part.strip()!r} is no condition; one is a finding, > or >=, and a "
            "number, as in lost>0"
        )
    name, operator, limit = found.groups()
    if name not in set(Finding):
        raise SettingsError(
            f"--fail-on: there is no finding {name}; there are {', '.join(Finding)}"
        )
    return Condition(Finding(name), operator, int(limit))
