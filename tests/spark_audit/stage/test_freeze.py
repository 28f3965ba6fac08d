"""The freeze, on a real broker: where each partition begins, starts, ends and is committed."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from kafka import TopicPartition
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewPartitions,
)

from feedback.errors import ExitCode, NotAvailable
from feedback.records.retry_group import retry_group
from feedback.settings.settings import Settings
from onceward.servers.ports import HOST, free_port
from spark_audit.stage.audited_topics import kind_of
from spark_audit.stage.chain import Chain
from spark_audit.stage.freeze import freeze
from spark_audit.stage.gaps import retention_gaps
from spark_audit.stage.manifest import FrozenPartition, Manifest
from spark_audit.stage.window import Window
from tests.spark_audit.stage.conftest import Append, Commit, MakeSettings
from tests.spark_audit.stage.samples import BEGIN_MS as BEGIN
from tests.spark_audit.stage.samples import DATE, DAY_MS

WINDOW = Window(DATE, BEGIN, BEGIN + DAY_MS)
NOW_MS = BEGIN + DAY_MS

MakeTopic = Callable[..., str]


def frozen(settings: Settings, **given: object) -> Manifest:
    """Return the manifest of the test's day."""
    return freeze(settings, WINDOW, now_ms=NOW_MS, **given)  # type: ignore[arg-type]


def only(manifest: Manifest) -> FrozenPartition:
    """Return the only partition."""
    (one,) = manifest.partitions
    return one


def test_the_window_starts_at_its_first_record_and_ends_at_the_logs_end(
    topic: MakeTopic, append: Append, commit: Commit, make_settings: MakeSettings
) -> None:
    name = topic(1)
    for timestamp_ms in (BEGIN - 1, BEGIN, BEGIN + 5, BEGIN + DAY_MS, BEGIN + DAY_MS + 1):
        append(name, timestamp_ms=timestamp_ms)
    commit(name, 4)
    assert only(frozen(make_settings(name))) == FrozenPartition("request", name, 0, 0, 1, 5, 4)


def test_a_record_before_midnight_behind_one_after_it_is_read_with_it(
    topic: MakeTopic, append: Append, make_settings: MakeSettings
) -> None:
    name = topic(1)
    for timestamp_ms in (BEGIN - 9, BEGIN + 1, BEGIN - 2, BEGIN + 3):
        append(name, timestamp_ms=timestamp_ms)
    one = only(frozen(make_settings(name)))
    assert (one.start, one.end) == (1, 4)


def test_without_a_record_so_late_there_is_nothing_to_read(
    topic: MakeTopic, append: Append, make_settings: MakeSettings
) -> None:
    name = topic(1)
    append(name, timestamp_ms=BEGIN - 1)
    assert only(frozen(make_settings(name))) == FrozenPartition("request", name, 0, 0, 1, 1, None)


def test_an_empty_topic_is_an_empty_range_and_not_committed(
    topic: MakeTopic, make_settings: MakeSettings
) -> None:
    name = topic(2)
    assert frozen(make_settings(name)).partitions == (
        FrozenPartition("request", name, 0, 0, 0, 0, None),
        FrozenPartition("request", name, 1, 0, 0, 0, None),
    )


def test_what_retention_took_is_before_the_begin(
    topic: MakeTopic, append: Append, admin: KafkaAdminClient, make_settings: MakeSettings
) -> None:
    name = topic(1)
    for _ in range(5):
        append(name, timestamp_ms=BEGIN + 1)
    admin.delete_records({TopicPartition(name, 0): 3})
    one = only(frozen(make_settings(name), carried=["a"], carried_from={(name, 0): 1}))
    assert (one.begin, one.start, one.end) == (3, 3, 5)


def test_a_carried_request_is_read_from_its_own_record_on(
    topic: MakeTopic, append: Append, make_settings: MakeSettings
) -> None:
    name = topic(2)
    for number in (0, 1):
        for timestamp_ms in (BEGIN - 3, BEGIN - 2, BEGIN + 1):
            append(name, partition=number, timestamp_ms=timestamp_ms)
    settings = make_settings(name)
    manifest = frozen(settings, carried=["b", "a", "b"], carried_from={(name, 1): 1})
    assert [one.start for one in manifest.partitions] == [2, 1]
    assert manifest.carried == ("a", "b")


def test_the_topics_of_this_group_beside_a_request_topic_are_found_by_kind(
    topic: MakeTopic, group: str, make_settings: MakeSettings
) -> None:
    name = topic(1)
    for ending in ("dlq", "wait", "retry.5s", "retry.500ms", "retry.", "other"):
        topic(1, name=f"{name}.{group}.{ending}")
    topic(1, name=f"{name}.another-group.dlq")
    found = frozen(make_settings(name)).partitions
    assert [(one.kind, one.topic.removeprefix(name)) for one in found] == [
        ("request", ""),
        ("retry", f".{group}.retry.500ms"),
        ("retry", f".{group}.retry.5s"),
        ("wait", f".{group}.wait"),
        ("dlq", f".{group}.dlq"),
    ]


def test_retry_topics_are_committed_by_the_group_that_reads_them(
    topic: MakeTopic, append: Append, group: str, commit: Commit, make_settings: MakeSettings
) -> None:
    name = topic(1)
    retry = topic(1, name=f"{name}.{group}.retry.5s")
    for one in (name, retry):
        append(one, timestamp_ms=BEGIN)
        append(one, timestamp_ms=BEGIN)
    commit(name, 2)
    commit(retry, 1, of=retry_group(group))
    found = frozen(make_settings(name)).partitions
    assert [(one.kind, one.committed) for one in found] == [("request", 2), ("retry", 1)]


def test_letters_are_expected_of_topics_that_keep_them_and_have_a_topic_for_them(
    topic: MakeTopic, group: str, make_settings: MakeSettings
) -> None:
    kept, dropped, without = topic(1), topic(1), topic(1)
    for name in (kept, dropped):
        topic(1, name=f"{name}.{group}.dlq")
    settings = make_settings(kept, dropped, without)
    worker = settings.worker.model_copy(update={"dead_letters_excluded": (dropped,)})
    assert frozen(settings.model_copy(update={"worker": worker})).lettered == (kept,)


def test_compacted_topics_are_known_by_their_policy_and_wait_topics_by_their_name(
    topic: MakeTopic, group: str, admin: KafkaAdminClient, make_settings: MakeSettings
) -> None:
    plain, both, only_compacted = topic(1), topic(1), topic(1)
    wait = topic(1, name=f"{plain}.{group}.wait")
    for name, policy in ((both, "compact,delete"), (only_compacted, "compact")):
        admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, name, {"cleanup.policy": policy})]
        )
    manifest = frozen(make_settings(plain, both, only_compacted))
    assert manifest.compacted == tuple(sorted((both, only_compacted, wait)))


def test_a_topic_made_in_the_middle_of_the_day_is_read_from_its_first_record_and_lacks_nothing(
    topic: MakeTopic, append: Append, commit: Commit, make_settings: MakeSettings
) -> None:
    older = topic(1)
    append(older, timestamp_ms=BEGIN - 1)
    day_before = Window("2000-01-01", BEGIN - DAY_MS, BEGIN)
    before = freeze(make_settings(older), day_before, now_ms=BEGIN)
    newer = topic(2)
    for _ in range(3):
        append(newer, timestamp_ms=BEGIN + DAY_MS // 2)
    commit(newer, 3)
    manifest = frozen(make_settings(older, newer), chain=Chain(DATE, (before.past,)))
    found = {(one.topic, one.partition): one for one in manifest.partitions}
    assert found[newer, 0] == FrozenPartition("request", newer, 0, 0, 0, 3, 3)
    assert found[newer, 1] == FrozenPartition("request", newer, 1, 0, 0, 0, None)
    assert list(retention_gaps(manifest)) == []


def test_a_day_is_read_again_as_far_as_before_although_a_later_one_was_read_further(
    topic: MakeTopic, append: Append, make_settings: MakeSettings
) -> None:
    name = topic(1)
    append(name, timestamp_ms=BEGIN + 1)
    own = frozen(make_settings(name))
    append(name, timestamp_ms=BEGIN + 2)
    next_day = Window("2100-01-01", BEGIN + DAY_MS, BEGIN + 2 * DAY_MS)
    later = freeze(
        make_settings(name),
        next_day,
        now_ms=BEGIN + 2 * DAY_MS,
        chain=Chain("2100-01-01", [own.past]),
    )
    chain = Chain(DATE, (own.past, later.past))
    again = frozen(make_settings(name), chain=chain, fixed=own)
    assert (again.partitions, again.unseen) == (own.partitions, ())
    assert again.stretches(name, 0) == own.stretches(name, 0)


def test_a_topic_that_was_made_anew_is_read_from_its_first_record_and_its_end_was_not_seen(
    topic: MakeTopic, append: Append, admin: KafkaAdminClient, make_settings: MakeSettings
) -> None:
    name = topic(1)
    for _ in range(3):
        append(name, timestamp_ms=BEGIN + 1)
    before = frozen(make_settings(name))
    admin.create_partitions({name: NewPartitions(2)})
    grown = frozen(make_settings(name), chain=Chain(DATE, (before.past,)))
    assert ([one.start for one in grown.partitions], grown.unseen) == ([0, 0], ())
    admin.delete_topics([name])
    topic(1, name=name)
    manifest = frozen(make_settings(name), chain=Chain(DATE, (before.past,)))
    assert only(manifest).start == 0
    (unseen,) = manifest.unseen
    assert unseen.startswith(f"what {name}-0 had from offset ")
    assert "made anew" in unseen


def test_the_topics_of_a_group_are_what_they_are_also_where_the_settings_name_them() -> None:
    own = {"pay": "request", "pay.g.dlq": "dlq", "pay.g.wait": "wait", "pay.g.retry.5s": "retry"}
    assert {name: kind_of(name, list(own), "g") for name in own} == own
    # Another group may read them as requests, and one alone may be anybody's.
    assert {kind_of(name, list(own), "other") for name in own} == {"request"}
    assert kind_of("pay.g.dlq", ["pay.g.dlq"], "g") == "request"


def test_a_missing_topic_ends_with_3_and_is_not_made(
    admin: KafkaAdminClient, make_settings: MakeSettings
) -> None:
    name = f"missing-{uuid.uuid4().hex}"
    with pytest.raises(NotAvailable, match=f"topic {name} does not exist") as raised:
        frozen(make_settings(name))
    assert raised.value.exit_code is ExitCode.NOT_AVAILABLE
    assert name not in admin.list_topics()


def test_an_absent_broker_ends_with_3_and_names_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("feedback.kafka.questions.TIMEOUT_MS", 500)
    address = f"{HOST}:{free_port()}"
    monkeypatch.setenv("ONCEWARD_KAFKA__BOOTSTRAP_SERVERS", address)
    settings = Settings.model_validate({"audit": {"topics": ["payments"]}})
    with pytest.raises(NotAvailable, match=address):
        frozen(settings)


def test_the_limits_of_judging_stand_in_the_manifest(
    topic: MakeTopic, group: str, make_settings: MakeSettings
) -> None:
    manifest = frozen(make_settings(topic(1)))
    assert (manifest.since_ms, manifest.until_ms) == (WINDOW.since_ms, WINDOW.until_ms)
    assert (manifest.group, manifest.frozen_at_ms) == (group, NOW_MS)
    assert (manifest.grace_ms, manifest.deadline_s) == (600_000, 3600.0)
