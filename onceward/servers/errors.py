"""The faults of servers that we start."""

from pathlib import Path

from feedback.errors import NotAvailable

TAIL_LINES = 20


class StackError(NotAvailable):
    """A server cannot be installed or started; the message ends with the last lines of its log."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message, log)
        self.message = message
        self.log = log

    def __str__(self) -> str:
        return f"{self.message}\n{self.log}" if self.log else self.message


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a log, or one that says there is none."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return f"(no log at {log.name})"
    return "\n".join(text.splitlines()[-lines:]) or f"({log.name} is empty)"
