"""A handler that is declared, and never runs."""

from onceward import Request, handler


@handler(topic="payments")
def charge(request: Request) -> None:
    """Do nothing."""
