"""A day and what is to be found in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_audit.findings import Finding
from tests.spark_audit.judge.day import Day


@dataclass
class Planted:
    """The day, and what is to be found: exactly these requests with exactly these findings."""

    day: Day = field(default_factory=Day)
    findings: dict[str, set[Finding]] = field(default_factory=dict)

    def expect(self, request_id: str, *findings: Finding) -> None:
        """Say what is to be found about a request."""
        self.findings[request_id] = set(findings)
