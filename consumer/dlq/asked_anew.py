"""Says where later requests of a failure's key have succeeded: its client may have asked anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from consumer.journal.later_successes import LaterSuccesses, SucceededLater
from feedback.console.printable import printable
from feedback.settings.settings import Settings

# So many failures are looked at, the first that are given.
MOST_ASKED = 1000
# A person is shown so many; the JSON has all.
MOST_LINES = 20


def asked_anew(settings: Settings, request_ids: Iterable[str]) -> SucceededLater:
    """Return the later successes of the first `MOST_ASKED` failures; see `LaterSuccesses.of`.

    Raises:
        NotAvailable: the journal is away.
    """
    given = iter(request_ids)
    asked = list(islice(given, MOST_ASKED))
    with LaterSuccesses.from_settings(settings) as successes:
        later = successes.of(asked)
    return later if next(given, None) is None else later._replace(is_whole=False)


def asked_anew_lines(later: SucceededLater) -> Iterator[str]:
    """Yield a line for each failure that has later successes, and one for what was not looked at.

    Pure.
    """
    if later.of:
        yield "later requests of the same key succeeded: was the client's wish fulfilled by them?"
        yield from _lines(later.of)
    if later.undecided:
        yield "later requests of the same key run, wait or are in doubt: they may fulfil it yet"
        yield from _lines(later.undecided)
    if not later.is_whole:
        yield "not all later requests were looked through: others may have succeeded"


def _lines(named: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for failed, ids in islice(named.items(), MOST_LINES):
        yield printable(f"  {failed}: {', '.join(ids)}")
    if len(named) > MOST_LINES:
        yield f"  and {len(named) - MOST_LINES:,} more: --json has them"
