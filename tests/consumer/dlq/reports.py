"""Reports of requests as the pure tests need them."""

from __future__ import annotations

from typing import Any

from consumer.dlq.report import RequestReport

NOW = 1_700_000_006_000


def report_with(request_id: str = "a", **facts: Any) -> RequestReport:
    """Return a report of a request of which nothing else is known."""
    known: dict[str, Any] = {"letters": [], "state": None, "row": None, "runs": [], "actions": []}
    known |= {"status": None, "away": None, "group": "g", "now": NOW}
    return RequestReport(request_id, **known | facts)
