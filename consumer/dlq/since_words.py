"""The acts of people on a request since one that a person has seen, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.dlq.dates import moment
from consumer.journal.actions import Action, ActionKind

_MOST = 5
_WORDS = {
    ActionKind.REDRIVE: "sent it back",
    ActionKind.RESOLVE: "resolved it",
    ActionKind.DISCARD: "discarded it",
    ActionKind.UNDO: "undone its discard",
    ActionKind.CANCEL: "taken its redrive back",
}


def since_words(actions: Sequence[Action], seen: str) -> str:
    """Return the last acts behind one of them; nothing where there were none.

    Args:
        actions: oldest first.
        seen: the stamp of the one; see `Action`.

    >>> seen = Action("a", "discard", "olga", 1000, "a test", None, 1, id=7)
    >>> since_words([seen, Action("a", "undo", "otto", 2000, "no test", None, 1, id=8)], seen.stamp)
    'since then otto has undone its discard at 1970-01-01 00:00:02Z (no test)'
    >>> since_words([seen], "1.1")
    'it has no discard 1.1: `show` names those that it has'
    """
    stamps = [one.stamp for one in actions]
    if seen not in stamps:
        return f"it has no discard {seen}: `show` names those that it has"
    behind = actions[stamps.index(seen) + 1 :]
    acts = [one for one in behind if one.action in _WORDS][-_MOST:]
    return f"since then {', '.join(map(_words, acts))}" if acts else ""


def _words(one: Action) -> str:
    why = f" ({one.reason})" if one.reason else ""
    return f"{one.by} has {_WORDS[ActionKind(one.action)]} at {moment(one.at)}{why}"
