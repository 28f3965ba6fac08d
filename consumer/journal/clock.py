"""The database's clock: the only one that a stored time of the journal comes from."""

from feedback.sql.clock import now_ms, once

__all__ = ["now_ms", "once"]
