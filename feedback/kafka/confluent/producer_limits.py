"""Sizes and times that all our producers on librdkafka have in common, and its own tries. Pure."""

from __future__ import annotations

# The broker's limit is the one that counts, and it refuses that one record alone.
ANY_SIZE_BYTES = 10**9
ANY_SIZE_KIB = 2**31 - 1
BATCH_BYTES = 65_536
# librdkafka's pause before another try, give or take a fifth of it.
OWN_PAUSE_MS = 1000
FIRST_TRY_S = 0.75 * OWN_PAUSE_MS / 1000


def is_first_try(heard_after_s: float) -> bool:
    """Return whether a refusal heard so long after the handing over is of the first try.

    >>> is_first_try(0.7), is_first_try(0.8)
    (True, False)
    """
    return heard_after_s < FIRST_TRY_S
