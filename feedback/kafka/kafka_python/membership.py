"""Mends three faults of kafka-python 3.0's group membership, each seen on a real broker.

All three show when a poll ends before its request is answered: a worker polls for tens of
milliseconds, and a broker answers a join when the last member has joined.
"""

from __future__ import annotations

from typing import Any

# A poll of 5 ms or less never finishes joining a group; this one takes part in a rebalance.
SHORTEST_POLL_S = 0.02


def mend(consumer: Any) -> None:
    """Mend one `KafkaConsumer`, before its first poll."""
    coordinator = consumer._coordinator
    _keep_from_spinning(coordinator)
    _remember_why(coordinator)
    _take_what_came_between_polls(coordinator)


def _keep_from_spinning(coordinator: Any) -> None:
    """Let a poll with an overdue heartbeat wait a little.

    It fetched with a timeout of 0, over and over, and added a callback to the fetch under way each
    time. A broker that is silent for 10 s cost a core and 130 MiB.
    """
    soon = coordinator.time_to_next_poll
    coordinator.time_to_next_poll = lambda: max(SHORTEST_POLL_S, soon())


def _remember_why(coordinator: Any) -> None:
    """Finish a join that an earlier poll began because the topics had changed.

    The reason is forgotten when the join is prepared, so no later poll asked for its result. The
    member had nothing assigned, sent no heartbeats and was removed from the group, for ever.
    """
    is_wanted = coordinator.need_rejoin
    coordinator.need_rejoin = lambda: coordinator.rejoining or is_wanted()


def _take_what_came_between_polls(coordinator: Any) -> None:
    """Use the assignment of a join that ended between two polls, instead of joining again.

    Each such join made all other members of the group join again too, round after round.
    """
    join = coordinator.join_group_async

    async def take_or_join(timeout_ms: float | None = None) -> Any:
        ended = coordinator._join_task
        if ended is not None and ended.is_done:
            # The join looks for an earlier one that is under way: this one ends in a moment, as
            # that one did.
            coordinator._join_task = coordinator._manager.call_soon(lambda: ended)
        return await join(timeout_ms=timeout_ms)

    coordinator.join_group_async = take_or_join
