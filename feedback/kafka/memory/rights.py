"""The rights of the one user of a broker in memory, to topics, groups, names and the cluster."""

from __future__ import annotations

from enum import StrEnum

TOPIC_OPERATIONS = frozenset(
    {
        *("READ", "WRITE", "CREATE", "DELETE", "ALTER"),
        *("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    }
)
# Each of them lets a user describe as well.
_DESCRIBE = frozenset({"READ", "WRITE", "DELETE", "ALTER"})


class GuardedKind(StrEnum):
    """The kinds of things that rights are given to."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    CLUSTER = "cluster"


class MemoryRights:
    """Knows what the user may do. The broker's lock guards it.

    Args:
        allows_all: whether the user may do anything with a thing that no right names.
    """

    def __init__(self, *, allows_all: bool) -> None:
        self._given: dict[tuple[GuardedKind, str], frozenset[str]] = {}
        self._others = TOPIC_OPERATIONS if allows_all else frozenset[str]()

    def limit(self, kind: GuardedKind, name: str, *operations: str) -> None:
        """Let the user do this alone with a thing; nothing where no operation is named."""
        implied = {"DESCRIBE"} if _DESCRIBE.intersection(operations) else set[str]()
        self._given[kind, name] = frozenset(operations) | implied

    def allow(self, kind: GuardedKind, name: str, *operations: str) -> None:
        """Let the user do this too with a thing that rights name from now on."""
        self.limit(kind, name, *operations, *self._given.get((kind, name), ()))

    def free(self, kind: GuardedKind, name: str) -> None:
        """Forget the rights to one thing: they are again those of any other."""
        self._given.pop((kind, name), None)

    def of(self, kind: GuardedKind, name: str) -> frozenset[str]:
        """Return the operations that the user may do with a thing."""
        return self._given.get((kind, name), self._others)

    def may(self, operation: str, kind: GuardedKind, name: str = "") -> bool:
        """Say whether the user may do that with a thing."""
        return operation in self.of(kind, name)
