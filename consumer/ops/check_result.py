"""One finding of `onceward-worker check`."""

from __future__ import annotations

from dataclasses import dataclass

from feedback.errors import ExitCode


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was looked at.

    Attributes:
        detail: its address and version, or the fault and its correction.
    """

    what: str
    detail: str
    exit_code: ExitCode = ExitCode.FINE

    @property
    def entry(self) -> str:
        """The name of its entry (docs: Troubleshooting by symptom).

        >>> CheckResult("redis memory", "").entry
        'check-redis-memory'
        """
        return f"check-{self.what.replace(' ', '-')}"

    @property
    def ok(self) -> bool:
        """Whether it is as it should be."""
        return self.exit_code is ExitCode.FINE
