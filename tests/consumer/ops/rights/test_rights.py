"""The rights of each role follow from the settings and the handlers."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.handlers.backoff import Fixed
from consumer.handlers.declaration import DeliveryKind, Handler
from consumer.journal import wait_tables
from consumer.ops.rights.kafka_rights import kafka_rights
from feedback.kafka.topic_facts import HIDDEN, TopicFacts
from feedback.rights.kafka_missing import lacking_operations
from feedback.rights.needed import KafkaRight, Resource, Role
from feedback.rights.redis_rights import redis_right
from feedback.rights.sql_rights import TABLES
from feedback.settings.settings import Settings
from producer_client.outbox import tables as outbox_tables
from tests.consumer.samples import payments


def rights(role: Role, *handlers: Handler, **worker: Any) -> dict[str, str]:
    """Return the operations by resource and name, those that are only wished in parentheses."""
    settings = Settings.model_validate({"kafka": {"group": "g"}, "worker": worker})
    return {
        f"{one.resource} {one.name}{'*' * one.is_prefix}": " ".join(
            [*sorted(one.operations), *(f"({word})" for word in sorted(one.wished))]
        )
        for one in kafka_rights(role, settings, handlers)
    }


def test_a_worker_without_anything_beside_reads_its_topic_and_no_more() -> None:
    assert rights(Role.WORKER, payments(), dead_letters="drop") == {
        "topic payments": "Read (DescribeConfigs)",
        "group g": "Read",
    }


def test_a_worker_gets_rights_for_all_that_its_handlers_declare() -> None:
    plain = payments(retries=Fixed("5s", tries=1), outcome_topic="told")
    kept = payments(topic="kept", name="m:g", delivery=DeliveryKind.AT_LEAST_ONCE)
    assert rights(Role.WORKER, plain, kept) == {
        "topic payments": "Read (DescribeConfigs)",
        "topic kept": "Read (DescribeConfigs)",
        "topic told": "Create Write",
        "topic payments.g.*": "Create Read Write (DescribeConfigs)",
        "topic kept.g.*": "Create Read Write (DescribeConfigs)",
        "group g": "Read",
        "group g.retry": "Read",
        "group g.wait": "Read",
    }


def test_a_worker_that_makes_no_topics_needs_no_right_to_make_them() -> None:
    found = rights(Role.WORKER, payments(outcome_topic="told"), create_topics=False)
    assert found["topic payments.g.*"] == "Write (DescribeConfigs)"
    assert found["topic told"] == "Write"


def test_the_registry_writes_under_the_names_of_its_group_alone() -> None:
    kept = payments(topic="kept", delivery=DeliveryKind.AT_LEAST_ONCE)
    found = rights(Role.REGISTRY, kept, payments(name="m:g"))
    assert found["transactional-id onceward.g.expire.*"] == "Write"
    assert found["group g.expire"] == "Read"
    assert not any("payments" in name for name in found)


def test_nobody_but_a_worker_and_a_registry_joins_a_group() -> None:
    for role in Role:
        joins = [name for name in rights(role, payments()) if name.startswith("group")]
        reads = [name for name in joins if "Read" in rights(role, payments())[name]]
        assert bool(reads) is (role in (Role.WORKER, Role.REGISTRY))


@pytest.mark.parametrize("role", list(Role))
def test_no_role_may_do_all_or_reach_keys_of_another_group(role: Role) -> None:
    right = redis_right(role, group="g", url="redis://h/0")
    if right is None:
        assert role is Role.MIGRATE
        return
    assert right.keys == ("onceward:g:*",)
    assert right.channels in ((), ("onceward:g:*",))
    forbidden = {"keys", "flushall", "config", "acl", "monitor", "script|flush", "select", "scan"}
    assert not forbidden & right.commands


@pytest.mark.parametrize(
    ("url", "selects"),
    [
        ("redis://h/0", False),
        ("redis://h", False),
        ("redis://h/3", True),
        ("rediss://u:p@h:6379/3?ssl_ca_certs=/ca", True),
        ("redis://h?db=2", True),
        ("unix:///run/redis.sock", False),
        ("unix:///run/redis.sock?db=1", True),
    ],
)
def test_another_database_than_the_first_has_to_be_chosen(url: str, selects: bool) -> None:
    right = redis_right(Role.CLIENT, group="g", url=url)
    assert right is not None
    assert ("select" in right.commands) is selects


def test_every_table_that_a_role_uses_is_one_of_ours_and_each_of_ours_is_used() -> None:
    ours = {*wait_tables.wait.metadata.tables, *outbox_tables.metadata.tables}
    used = {name for sections in TABLES.values() for some in sections.values() for name in some}
    # Triggers write the copy of the open requests, and roles read it through its view.
    assert used - {"onceward_open_request"} == ours - {"onceward_open"}


def test_an_auditor_changes_nothing_in_any_database() -> None:
    assert {letters for some in TABLES[Role.AUDITOR].values() for letters in some.values()} == {"S"}


def test_facts_of_a_topic_say_which_operations_are_denied() -> None:
    right = KafkaRight(
        Resource.TOPIC, "t", frozenset({"Read", "Create"}), frozenset({"DescribeConfigs"})
    )
    reads = TopicFacts(1, 1, {}, frozenset({"READ", "DESCRIBE"}))
    assert lacking_operations(right, reads) == {"DescribeConfigs"}
    assert lacking_operations(right, HIDDEN) == {"Read", "DescribeConfigs"}
    assert lacking_operations(right, None) == frozenset()
    silent = TopicFacts(1, 1, {}, frozenset())
    assert lacking_operations(right, silent) == frozenset()
