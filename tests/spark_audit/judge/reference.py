"""The audit once more, in plain Python and one request at a time: slow, short, and read at once."""

from __future__ import annotations

import re
from collections import defaultdict

from spark_audit.findings import Finding
from spark_audit.stage.chain import ChainLink
from spark_audit.stage.manifest import Manifest
from tests.spark_audit.judge.day import Day, Facts
from tests.spark_audit.judge.effects import effect_runs

PLACE = ("topic", "partition", "offset")
FAR = 2**63


def audit(day: Day) -> dict[str, set[Finding]]:
    """Return what is found about each judged request."""
    by_id: defaultdict[str, tuple[list[Facts], list[Facts], list[Facts]]]
    by_id = defaultdict(lambda: ([], [], []))
    for side, facts in enumerate((day.records, day.requests, day.runs)):
        for one in facts:
            by_id[one["request_id"]][side].append(one)
    limits = day.manifest
    return {
        request_id: _findings(request_id, records, rows[0] if rows else {}, runs, limits)
        for request_id, (records, rows, runs) in by_id.items()
        if request_id in limits.carried or _is_judged(records, rows, runs, limits)
    }


def resends(day: Day) -> dict[str, bool | None]:
    """Return whether each resent request owes its row to a later attempt; None without a row."""
    attempts = defaultdict(list)
    for one in day.records:
        if one["kind"] == "request":
            attempts[one["request_id"]].append(one["attempt"])
    of_row = {row["request_id"]: row["attempt"] for row in day.requests}
    return {
        request_id: of_row[request_id] > min(sent) if request_id in of_row else None
        for request_id, sent in attempts.items()
        if len(sent) > 1
    }


def _is_judged(records: list[Facts], rows: list[Facts], runs: list[Facts], it: Manifest) -> bool:
    if any(_has_run_again(row, it) for row in rows):
        return True
    letters = [one for one in records if one["kind"] == "dlq" and one["in_window"]]
    if rows and Finding.DEAD_LETTER_WITHOUT_FAILURE in _findings("", records, rows[0], runs, it):
        late = [one for one in letters if one["arrived_by_ms"] > it.before_ms]
        original = [{name: one[f"original_{name}"] for name in PLACE} for one in late]
        if any(one["topic"] and _is_reached(one, it) for one in original):
            return True
    sent = [one for one in records if one["kind"] == "request"]
    if sent:
        return any(one["in_window"] for one in sent)
    if any(_is_placed(row, row["claimed_at"] or row["finished_at"], it) for row in rows):
        return True
    return any(_is_placed(run, run["claimed_at"], it) for run in runs) or any(
        one["original_topic"]
        and _read({name: one[f"original_{name}"] for name in PLACE}, it, False)
        for one in letters
    )


def _has_run_again(row: Facts, it: Manifest) -> bool:
    is_new = it.reran_since_ms <= (row["claimed_at"] or 0) < it.journal_read_at_ms
    return row["generation"] > 1 and is_new and _is_reached(row, it)


def _is_earlier(at: Facts, it: Manifest) -> bool:
    return any(at["offset"] < link.first for link in _links(at, it))


def _is_reached(at: Facts, it: Manifest) -> bool:
    reaches = [reach for link in _links(at, it) for reach in link.reaches if reach.date < it.date]
    is_in = any(reach.first <= at["offset"] < reach.after for reach in reaches)
    return is_in or _is_earlier(at, it)


def _links(at: Facts, it: Manifest) -> list[ChainLink]:
    place = (at["topic"], at["partition"])
    return [one for one in it.links if (one.topic, one.partition) == place]


def _is_placed(one: Facts, at: int, it: Manifest) -> bool:
    is_new = it.since_ms <= at < it.frozen_at_ms
    return _read(one, it, is_new) and at >= it.since_ms - it.grace_ms


def _read(at: Facts, it: Manifest, unknown: bool = True) -> bool:
    ends = {(one.topic, one.partition): one.offset for one in it.log_ends}
    for one in it.partitions:
        place = (one.topic, one.partition)
        if one.kind in ("request", "retry") and place == (at["topic"], at["partition"]):
            return bool(one.start <= at["offset"] < one.end or at["offset"] >= ends[place])
    return unknown


def _findings(
    request_id: str, records: list[Facts], row: Facts, runs: list[Facts], it: Manifest
) -> set[Finding]:
    sent = [one for one in records if one["kind"] == "request"]
    letters = [one for one in records if one["kind"] == "dlq"]
    seen = [one for one in records if one["kind"] != "outcome"]
    state, over = row.get("state"), it.frozen_at_ms - it.grace_ms
    waits = any(one["kind"] in ("request", "retry") and not one["is_committed"] for one in records)
    payloads = {one["payload_sha256"] for one in (*sent, *([row] if row else []))}
    lease = it.workers.get(row.get("owner", ""), 0)
    place = "-".join(str(row.get(name)) for name in PLACE)
    refused = state == "FAILED" and row["claimed_at"] is None
    own = request_id.startswith(f"{place}-") or re.fullmatch("sha256-[0-9a-f]{64}", request_id)
    unburied = state == "FAILED" and not row["resend"] and row["code"] != "PAYLOAD_GONE"
    unburied = unburied and not _was_buried_before(request_id, row, it)
    lettered = ("FAILED", "IN_DOUBT", "EXPIRED")
    failed = state in lettered or any(run["outcome"] in lettered for run in runs)
    is_missing = sent and not row and not waits and _deadline(records, it) <= over
    is_pruned = any(_is_pruned(one, it) for one in sent)
    found = {
        Finding.LOST: is_missing and not is_pruned,
        Finding.FORGOTTEN: is_missing and is_pruned,
        Finding.OVERDUE: (state == "RETRYING" and row["deadline_at"] <= over)
        or (not row and waits and _deadline(records, it) <= over)
        or (waits and state == "FAILED" and row["resend"] and row["deadline_at"] <= over)
        or (_is_asked_again(sent, row, payloads) and row["deadline_at"] <= over),
        Finding.RAN_TWICE: effect_runs(row, runs) > 1,
        Finding.IN_DOUBT: state == "IN_DOUBT",
        Finding.STUCK: state == "CLAIMED"
        and (lease < it.journal_read_at_ms - it.grace_ms or row["deadline_at"] <= over),
        Finding.ORPHAN: row and not seen and _read(row, it) and not (refused and own),
        Finding.PAYLOAD_MISMATCH: len(payloads) > 1,
        Finding.RESENT: len(sent) > 1,
        Finding.FAILED_WITHOUT_DEAD_LETTER: unburied
        and (row["topic"] in it.lettered and not letters and row["finished_at"] < over),
        Finding.DEAD_LETTER_WITHOUT_FAILURE: not failed
        and any(one["reason"] != "PAYLOAD_MISMATCH" for one in letters),
        Finding.MALFORMED: any(one["is_malformed"] for one in sent),
        Finding.LATE: state in ("SUCCEEDED", "FAILED") and row["finished_at"] > row["deadline_at"],
    }
    return {finding for finding, is_true in found.items() if is_true}


def _is_asked_again(sent: list[Facts], row: Facts, payloads: set[str]) -> bool:
    if row.get("state") != "FAILED" or not row["resend"] or len(payloads) > 1:
        return False
    asked = [one for one in sent if one["is_committed"] and one["reopens"] is not None]
    if not asked:
        return False
    last = max(asked, key=lambda one: (one["reopens"], one["attempt"], one["topic"]))
    is_later = last["reopens"] >= row["generation"] and last["attempt"] > row["attempt"]
    return bool(is_later and last["topic"] == row["topic"])


def _was_buried_before(request_id: str, row: Facts, it: Manifest) -> bool:
    is_by_then = (row["dead_letter_at"] or FAR) < (it.before_ms or it.since_ms)
    is_older = (row["dead_letter_at"] or FAR) < it.since_ms and _is_reached(row, it)
    is_judged = (is_by_then and _is_earlier(row, it)) or is_older
    return is_judged and request_id not in it.carried


def _is_pruned(record: Facts, it: Manifest) -> bool:
    """Say whether it lies where its partition was pruned, or had its time when a record of its
    topic had that was pruned: it may be a copy of that."""
    has_deadline = record["deadline_at"] is not None
    sent_at = _sent_at(record) if record["timestamp_ms"] >= 0 else it.since_ms
    earliest = record["deadline_at"] if has_deadline else sent_at
    return any(
        one.topic == record["topic"] and earliest <= one.deadline_at for one in it.forgotten
    ) or any(
        (one.topic, one.partition) == (record["topic"], record["partition"])
        and record["offset"] < one.next_offset
        for one in it.forgotten
        if not has_deadline
    )


def _deadline(records: list[Facts], it: Manifest) -> int:
    fallback = round(it.deadline_s * 1000)
    return max(
        _in_our_time(one)
        if one["deadline_at"] is not None
        else (_sent_at(one) if one["timestamp_ms"] >= 0 else it.since_ms) + fallback
        for one in records
        if one["kind"] in ("request", "retry")
    )


def _sent_at(record: Facts) -> int:
    return min(int(record["timestamp_ms"]), int(record["arrived_by_ms"]))


def _in_our_time(record: Facts) -> int:
    """Return its deadline; one that was named by a clock that is ahead is by as much too late."""
    deadline_at: int = record["deadline_at"]
    ahead = int(record["timestamp_ms"]) - _sent_at(record)
    return deadline_at - ahead if deadline_at >= record["timestamp_ms"] else deadline_at
