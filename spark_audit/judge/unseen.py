"""Evidence that a day lacks: any lack makes the day incomplete. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from spark_audit.findings import Finding
from spark_audit.stage.gaps import Gap
from spark_audit.stage.manifest import Manifest, TopicKind

# The topics that are named in a sentence.
_MOST = 5


def unseen_offsets(manifest: Manifest, gaps: Iterable[Gap]) -> Iterator[str]:
    """Yield a sentence for each stretch of the topics that nobody saw.

    Beside the gaps: where Kafka's records begin within the window, the records before are gone,
    unless an earlier run has judged up to there.

    Args:
        gaps: of the day.
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
    """Yield a sentence about the requests of earlier days of which nothing is left.

    Args:
        gone: how many.
    """
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
