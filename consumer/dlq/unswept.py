"""The hint about requests that a sweep is still to settle: they are no doubts yet. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from consumer.dlq.dates import moment
from consumer.journal.doubts import MOST_OWNERS, UnsweptFound
from feedback.console.plurals import counted
from feedback.console.printable import printable


def unswept_lines(found: UnsweptFound) -> Iterator[str]:
    """Yield how many requests lie in the effects of dead workers, and who settles them."""
    if not found.claims:
        return
    requests = sum(one.requests for one in found.claims)
    at_least = "at least " if len(found.claims) == MOST_OWNERS else ""
    yield f"{at_least}{counted(requests, 'request')} more may become doubts; {_settled_by(found)}"
    for one in found.claims:
        claims = counted(one.requests, "request")
        yield printable(
            f"  {one.worker_id}, which is dead, entered the effect of {claims}, the first at "
            f"{moment(one.since)}"
        )


def _settled_by(found: UnsweptFound) -> str:
    if found.living:
        return (
            "a sweep settles each as its handler says: in doubt, run again, or the counterparty "
            "is asked"
        )
    return "no worker is alive to settle them: start one (onceward-worker run)"


def unswept_json(found: UnsweptFound) -> dict[str, Any]:
    """Return the facts as JSON values."""
    return {
        "unswept": [one._asdict() for one in found.claims],
        "living_workers": found.living,
    }
