"""What stops a benchmark."""

from __future__ import annotations


class BenchError(Exception):
    """Nothing can be measured; the message says why and ends with the last lines of a log."""
