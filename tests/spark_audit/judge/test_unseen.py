"""What was not seen of a day's topics."""

from __future__ import annotations

from dataclasses import replace

from spark_audit.findings import Finding
from spark_audit.judge.day_verdict import unseen_carried, unseen_offsets
from spark_audit.stage.gaps import Gap, retention_gaps
from spark_audit.stage.manifest import Manifest, TopicKind
from tests.spark_audit.stage.test_gaps import judged_up_to, manifest_of, request_partition

DELETED = "what Kafka deleted of pay: it may have been of this day"


def unseen(manifest: Manifest) -> list[str]:
    return list(unseen_offsets(manifest, retention_gaps(manifest)))


def test_records_that_were_deleted_before_they_were_delivered_were_not_seen() -> None:
    told = "records that Kafka deleted before they were delivered or judged, of pay"
    assert unseen(manifest_of(request_partition(committed=40))) == [told]


def test_a_hole_in_the_offsets_was_not_seen() -> None:
    whole = manifest_of(request_partition(begin=0, start=0))
    gaps = [Gap(Finding.OFFSET_GAP, name, 0, 1, 2, 1) for name in "fedcba"]
    told = ["offsets that are missing, of a, b, c, d, e and 1 more"]
    assert list(unseen_offsets(whole, gaps)) == told


def test_what_was_delivered_and_deleted_before_any_audit_looked_was_not_seen() -> None:
    assert unseen(manifest_of(request_partition())) == [DELETED]
    # Everything is gone: a day of which nothing is left is not an empty one.
    gone = request_partition(begin=200, start=200)
    assert unseen(manifest_of(gone)) == [DELETED]


def test_a_window_that_begins_behind_what_is_left_was_seen() -> None:
    assert unseen(manifest_of(request_partition(start=101))) == []
    assert unseen(manifest_of(request_partition(begin=0, start=0))) == []


def test_what_the_run_before_has_judged_was_seen() -> None:
    manifest = replace(manifest_of(request_partition()), links=(judged_up_to(100),))
    assert unseen(manifest) == []


def test_of_other_topics_nobody_needs_what_was_deleted() -> None:
    letters = request_partition()
    for kind in (TopicKind.RETRY, TopicKind.WAIT, TopicKind.DLQ):
        manifest = manifest_of(type(letters)(kind, "t", 0, 100, 100, 200, None))
        assert unseen(manifest) == []


def test_open_requests_of_which_nothing_is_left_were_not_seen() -> None:
    assert list(unseen_carried(0)) == []
    left = "open: neither a record in Kafka nor a row is left"
    assert list(unseen_carried(1)) == [f"a request that an earlier day left {left}"]
    assert list(unseen_carried(2)) == [f"2 requests that earlier days left {left}"]
