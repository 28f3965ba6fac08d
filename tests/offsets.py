"""What a group has committed, asked of a broker that may have just begun."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from tests.eventually import eventually

T = TypeVar("T")
LIMIT_S = 30.0


def committed(admin: KafkaAdminClient, group: str, place: TopicPartition) -> int:
    """Return the offset that a group would read next; below 0 when it has read nothing."""
    found = _patiently(lambda: admin.list_group_offsets({group: [place]}))[group].get(place)
    return -1 if found is None else int(found.offset)


def commit(admin: KafkaAdminClient, group: str, place: TopicPartition, offset: int) -> None:
    """Commit an offset for a group without members."""

    def is_committed() -> bool:
        marks = {place: OffsetAndMetadata(offset, "", -1)}
        _patiently(lambda: admin.alter_group_offsets(group, marks))
        # While the broker makes its topic of offsets, a commit can be answered and is not there.
        return committed(admin, group, place) == offset

    eventually(is_committed, timeout_s=LIMIT_S, interval_s=0.2)


def _patiently(ask: Callable[[], T]) -> T:
    """Return the answer, asked for again while the broker makes or loads its topic of offsets."""
    answers: list[T] = []

    def is_answered() -> bool:
        try:
            answers.append(ask())
        except KafkaError as error:
            if not error.retriable:
                raise
        return bool(answers)

    eventually(is_answered, timeout_s=LIMIT_S, interval_s=0.2)
    return answers[0]
