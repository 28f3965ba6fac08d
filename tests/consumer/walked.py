"""A handler that takes none of the features; for `test_way`."""

from __future__ import annotations

from onceward import Request, handler


@handler(topic="walked")
def work(request: Request) -> dict[str, int]:
    """Return a result."""
    return {"done": 1}
