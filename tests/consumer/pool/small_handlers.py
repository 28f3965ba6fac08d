"""A handler that does nothing, in a module that imports nothing."""

from consumer.handlers import handler
from consumer.request import Request


@handler(topic="noop")
def noop(request: Request) -> None:
    """Do nothing."""
