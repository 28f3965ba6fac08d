"""What goes wrong with the local stack."""

from pathlib import Path

TAIL_LINES = 20


class StackError(Exception):
    """The local stack cannot be had; the message says why and ends with the log's last lines."""

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
