"""A handler that does nothing, in a module that imports nothing."""

from consumer.handlers.decorator import handler
from consumer.handlers.request import Request


@handler(topic="noop")
def noop(request: Request) -> None:
    """Do nothing."""
