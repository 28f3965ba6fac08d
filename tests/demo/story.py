"""What a viewer should notice, each thing said once, when it is first seen."""

from collections.abc import Iterator

from feedback.status import State
from tests.demo.payments import Progress


class Story:
    """Remembers what was said."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def notice(self, progress: Progress) -> Iterator[str]:
        """Yield a sentence for whatever is new since the last time."""
        for name, sentence in _seen(progress):
            if name not in self._said:
                self._said.add(name)
                yield sentence


def _seen(progress: Progress) -> Iterator[tuple[str, str]]:
    if progress.states.get(State.LOST, 0):
        yield "lost", "the first are LOST: the dead worker took them, and had not begun them"
    if progress.resent:
        yield "resent", "clients begin to send again: same id, and the journal makes that safe"
    if progress.states.get(State.IN_DOUBT, 0):
        yield "doubt", "the first are IN_DOUBT: the worker died while it was asking the bank"
    if progress.sent == progress.total:
        yield "sent", f"all {progress.total:,} payments are sent"
