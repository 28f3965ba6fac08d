"""From where the next owner of a partition has to read, so that it overtakes nothing. Pure.

A request that waits for its key here is committed in Kafka: the next owner of its partition would
go on behind it. So its offset is committed once more when the partition goes, and the next owner
reads it again. Requests among them that have run meanwhile, or still wait here, are as harmless as
any second delivery.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from consumer.handlers.delivery import Delivery
from consumer.handlers.order_keys import lane_of
from consumer.intake.buffer import Received
from feedback.kafka.values import Partition


def first_unclaimed(
    waiting: Iterable[Received],
    partitions: Collection[Partition],
    *,
    arriving: Sequence[Received] = (),
) -> dict[Partition, int]:
    """Return the lowest offset of waiting, ordered requests for each of these partitions.

    Args:
        arriving: requests whose commit may be made, or not, or is never made. Where one of them is
            ordered, the lowest offset of them all counts: nobody has read the others otherwise.
    """
    first: dict[Partition, int] = {}
    for one in [*waiting, *arriving]:
        if not isinstance(one, Delivery) or one.wakes or lane_of(one) is None:
            continue
        record = one.record
        partition = (record.topic, record.partition)
        if partition in partitions:
            first[partition] = min(first.get(partition, record.offset), record.offset)
    for other in arriving:
        partition = (other.record.topic, other.record.partition)
        if partition in first:
            first[partition] = min(first[partition], other.record.offset)
    return first
