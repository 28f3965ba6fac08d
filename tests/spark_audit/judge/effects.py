"""How many runs of a request may have had their effect, once more and in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NOTHING = {"FAILED", "RETRYING", "EXPIRED", "SKIPPED"}
ABOVE = ("RAISED", "SAME_KEY")
ALLOWED = (*ABOVE, "VOIDED", "GRANTED")


def effect_runs(row: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> int:
    """Return how many there are.

    Args:
        row: of the journal; empty without one.
        runs: of the history.
    """
    of_row = row.get("effect_kind")
    all_runs = [
        (run["generation"], run["outcome"], run["effect_at"], run, run["effect_kind"] or of_row)
        for run in runs
    ]
    if row and row["claimed_at"] is not None:
        all_runs.append((row["generation"], row["state"], row["effect_at"], {}, of_row))
    succeeded = [
        one for one in all_runs if one[1] == "SUCCEEDED" and one[3].get("allowed_by") not in ABOVE
    ]
    entered = [
        one
        for one in all_runs
        if one[1] not in {"SUCCEEDED", *NOTHING}
        and one[2] is not None
        and one[3].get("allowed_by") not in ALLOWED
        and one[4] != "transactional"
    ]
    # A doubt of the history is about the run that another entry of its generation tells of.
    doubts = [one for one in entered if one[1] == "IN_DOUBT" and one[3]]
    told = {one[0] for one in all_runs if one not in doubts}
    open_doubts = {one[0] for one in doubts} - told
    return len(succeeded) + len(entered) - len(doubts) + len(open_doubts)
