"""What the rules share: columns over the journal's row of a request."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def state() -> Column:
    """Return the state of the row; null where there is none."""
    return F.col("row.state")


def may_reopen() -> Column:
    """Return whether its row is a failure that a later attempt reopens."""
    return sure((state() == "FAILED") & F.col("row.resend"))


def sure(condition: Column) -> Column:
    """Return a condition that is false where it is not known."""
    return F.coalesce(condition, F.lit(False))
