"""The partitions of each member of a group: by ranges, or kept where they are. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from feedback.kafka.values import Partition

# The topics of each member.
Subscriptions = Mapping[str, Collection[str]]
Assignment = dict[str, set[Partition]]


def by_ranges(members: Subscriptions, counts: Mapping[str, int]) -> Assignment:
    """Give each member neighbouring partitions of each topic, about as many as the others.

    Args:
        counts: the partitions of each topic.

    >>> sorted(by_ranges({"a": ["t"], "b": ["t"]}, {"t": 3})["a"])
    [('t', 0), ('t', 1)]
    """
    given: Assignment = {member: set() for member in members}
    for topic, count in counts.items():
        readers = sorted(member for member, topics in members.items() if topic in topics)
        for at, member in enumerate(readers):
            first, after = (-(-count * number // len(readers)) for number in (at, at + 1))
            given[member].update((topic, number) for number in range(first, after))
    return given


def by_owners(
    members: Subscriptions,
    counts: Mapping[str, int],
    owned: Mapping[str, Collection[Partition]],
) -> Assignment:
    """Leave partitions with their owners, and move the fewest to make the shares even.

    Args:
        counts: the partitions of each topic.
        owned: the partitions that each member has now.

    >>> have = {"a": [("t", 0), ("t", 1)], "b": []}
    >>> by_owners({"a": ["t"], "b": ["t"]}, {"t": 2}, have)
    {'a': {('t', 0)}, 'b': {('t', 1)}}
    """
    there = {(topic, number) for topic, count in counts.items() for number in range(count)}
    given: Assignment = {member: set() for member in members}
    for member in sorted(members):
        for one in sorted(there.intersection(owned.get(member, ()))):
            if one[0] in members[member]:
                given[member].add(one)
                there.discard(one)
    for one in sorted(there):
        readers = [member for member in sorted(members) if one[0] in members[member]]
        if readers:
            given[min(readers, key=lambda member: len(given[member]))].add(one)
    _level(given, members)
    return given


def _level(given: Assignment, members: Subscriptions) -> None:
    """Move partitions from members with two more than another who may have them."""
    while True:
        moves = (
            (one, giver, taker)
            for giver in sorted(given, key=lambda member: -len(given[member]))
            for taker in sorted(given, key=lambda member: len(given[member]))
            if len(given[giver]) > len(given[taker]) + 1
            for one in sorted(given[giver], reverse=True)
            if one[0] in members[taker]
        )
        found = next(moves, None)
        if found is None:
            return
        one, giver, taker = found
        given[giver].discard(one)
        given[taker].add(one)
