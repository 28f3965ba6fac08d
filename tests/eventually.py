"""Waiting for something that nobody announces, for tests: servers are awaited in the same way."""

from onceward.servers.polling import HANG_S, eventually

__all__ = ["HANG_S", "eventually"]
