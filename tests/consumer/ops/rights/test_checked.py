"""`onceward-worker check` names each right that is missing, with the command that grants it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from consumer.handlers.backoff import Fixed
from consumer.handlers.declaration import DeliveryKind, Handler
from consumer.ops.needed_topics import names_of_topics
from consumer.ops.rights.checking import look_at_rights
from consumer.ops.rights.kafka_rights import kafka_rights
from consumer.ops.rights.roles import rights_of
from feedback.errors import ExitCode, NotAvailable
from feedback.rights.looking import questions
from feedback.rights.needed import KafkaRight, RedisRight, Role, RoleRights, SqlRight
from feedback.settings.settings import load
from tests.consumer.ops.rights.stage import (
    KINDS,
    OPERATIONS,
    RightsStage,
    rights_stage,
)
from tests.eventually import eventually
from tests.stack.secured_stack import Secured

pytestmark = pytest.mark.usefixtures("no_given_servers")


class Atom(NamedTuple):
    """One right that can be taken away alone.

    Args:
        name: how `check` names it.
        take: takes it away.
        give: gives it back.
    """

    name: str
    take: Callable[[], object]
    give: Callable[[], object]


@pytest.fixture
def stage(secured: Secured, tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage with tables and all topics."""
    with rights_stage(secured, tmp_path) as made:
        made.migrate()
        made.make_beside()
        yield made


def checked(stage: RightsStage, *words: str, role: Role) -> tuple[int, list[dict[str, Any]]]:
    ran = stage.command("consumer", "check", "--json", *words, role=role)
    assert ran.stderr == ""
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()]


def test_a_missing_right_of_each_server_is_named_and_ends_run_with_3(stage: RightsStage) -> None:
    stage.grant(Role.WORKER)
    code, found = checked(stage, role=Role.WORKER)
    assert code == 0, [one for one in found if not one["ok"]]
    assert found[-1]["detail"] == "worker has all that it needs"
    stage.secured.kafka.take_away(Role.WORKER, KINDS["--group"], stage.group, OPERATIONS["Read"])
    stage.secured.redis.set_user(Role.WORKER, "-hmget")
    stage.run_sql(f"REVOKE USAGE ON SEQUENCE onceward_run_id_seq FROM {Role.WORKER}")
    code, found = checked(stage, role=Role.WORKER)
    assert code == ExitCode.NOT_AVAILABLE
    said = [one["detail"] for one in found if not one["ok"]]
    assert [one.partition(";")[0] for one in said] == [
        f"Kafka: user worker has no right Read on group {stage.group}",
        "Redis: user worker has no right to the command HMGET",
        "PostgreSQL: user worker has no right USAGE on sequence onceward_run_id_seq",
    ]
    worker = stage.worker()
    assert worker.ended(within_s=60) == ExitCode.NOT_AVAILABLE
    assert not worker.events("worker.started")
    for one in said:
        assert one in worker.log.read_text()
    # Each sentence ends with the command that grants the right.
    acl, redis, sql = [one.partition("; grant it: ")[2] for one in said]
    stage.run_acl(acl)
    stage.run_redis(redis)
    stage.run_sql(sql)
    eventually(lambda: checked(stage, role=Role.WORKER)[0] == 0, what="all rights")


STARTED = {
    Role.RESENDER: (("producer_client", "resend"), "Write", "resender.started"),
    Role.RELAY: (("producer_client", "relay"), "Write", "relay.started"),
    Role.REGISTRY: (("consumer.dlq", "expire"), None, "waits.started"),
}


@pytest.mark.parametrize("role", STARTED)
def test_a_service_that_lacks_a_right_names_it_and_ends_with_3(
    stage: RightsStage, role: Role
) -> None:
    """Before it says that it has started; and it starts when the printed commands were run."""
    words, operation, started = STARTED[role]
    stage.grant(role)
    kafka, topic = stage.secured.kafka, stage.topics["pay"]
    if operation is not None:
        kafka.take_away(role, KINDS["--topic"], topic, OPERATIONS[operation])
        wanted = [f"Kafka: user {role} has no right {operation} on topic {topic}"]
    else:
        kafka.take_away(role, KINDS["--group"], f"{stage.group}.expire", OPERATIONS["Read"])
        wanted = [f"Kafka: user {role} has no right Read on group {stage.group}.expire"]
    stage.secured.redis.set_user(role, "-exists")
    one = stage.start(role, *words)
    assert one.ended(within_s=60) == ExitCode.NOT_AVAILABLE, one.tail
    said = [line.strip() for line in one.tail.splitlines() if "; grant it: " in line]
    found = [line.partition(";")[0] for line in said]
    assert found[0] in wanted
    assert found[1].startswith(f"Redis: user {role} has no right to the command EXISTS")
    assert not any("started" in line for line in one.lines)
    acl, redis = [line.partition("; grant it: ")[2] for line in said]
    stage.run_acl(acl)
    stage.run_redis(redis)

    def has_started() -> bool:
        # A broker has an ACL a moment after it took the command.
        with suppress(NotAvailable):
            return bool(stage.start(role, *words).told(started))
        return False

    eventually(has_started, what=started)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_who_is_known_by_a_certificate_is_told_the_missing_right_before_the_start(
    stage: RightsStage,
) -> None:
    stage.grant(Role.WORKER)
    name = f"worker-{uuid.uuid4().hex}"
    own = stage.secured.authority.issue(name, hosts=())
    kafka: dict[str, Any] = {
        "bootstrap_servers": stage.secured.kafka.mutual,
        "security_protocol": "SSL",
        "ssl_certfile": str(own.cert),
        "ssl_keyfile": str(own.key),
    }
    for line in stage.grants(Role.WORKER, "acl"):
        stage.run_acl(line.replace("User:worker", f"User:CN={name}"))
    stage.secured.kafka.take_away(f"CN={name}", KINDS["--group"], stage.group)
    worker = stage.worker(kafka=kafka)
    assert worker.ended(within_s=60) == ExitCode.NOT_AVAILABLE, worker.tail
    said = f"user <subject of {own.cert}> has no right Read on group {stage.group};"
    assert said in worker.tail
    stage.secured.kafka.allow(
        f"CN={name}", KINDS["--group"], stage.group, OPERATIONS["Read"], OPERATIONS["Describe"]
    )
    eventually(lambda: stage.worker(kafka=kafka).told("worker.started"), what="a start")


def test_a_topic_that_may_not_be_seen_is_not_called_missing(stage: RightsStage) -> None:
    stage.grant(Role.WORKER)
    topic = stage.topics["pay"]
    stage.secured.kafka.take_away(Role.WORKER, KINDS["--topic"], topic)
    _, found = checked(stage, role=Role.WORKER)
    (kafka,) = [one["detail"] for one in found if one["what"] == "kafka"]
    assert f"does not let this user see {topic}: add an ACL" in kafka
    assert "has no topic" not in kafka
    assert any(f"no right Read on topic {topic};" in one["detail"] for one in found)


def test_where_settings_name_no_topic_it_says_that_none_was_looked_at(stage: RightsStage) -> None:
    stage.grant(Role.REGISTRY)
    settings = load(stage.config(Role.REGISTRY, worker={"handlers": []}))
    (found,) = look_at_rights(settings, Role.REGISTRY)
    assert found.detail == (
        "registry has all that it needs; these settings name no topic, so none was looked at"
    )


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("role", [one for one in Role if one is not Role.MIGRATE])
def test_each_right_that_is_taken_away_alone_is_named(stage: RightsStage, role: Role) -> None:
    stage.grant(role)
    settings, handlers = stage.settings(role), declared(stage)

    def lacking() -> list[str]:
        rights = kafka_rights(role, settings, handlers)
        asked = questions(role, settings, rights, known=names_of_topics(settings, handlers))
        return [one.sentence for _, ask in asked for one in ask()]

    def lacks(name: str) -> bool:
        return any(one.endswith(name) for one in lacking())

    eventually(lambda: not lacking(), what="all rights")
    for atom in atoms(stage, role, rights_of(role, settings, handlers)):
        atom.take()
        eventually(partial(lacks, atom.name), what=atom.name)
        atom.give()
        eventually(lambda: not lacking(), what=f"rights, {atom.name} too")


def declared(stage: RightsStage) -> tuple[Handler, ...]:
    """Return handlers that need the same rights as those of `rights_handlers`."""
    topics = stage.topics
    plain = Handler(
        function=print,
        topic=topics["pay"],
        name="m:f",
        retries=Fixed("300ms", tries=2),
        outcome_topic=topics["outcomes"],
    )
    kept = Handler(
        function=print, topic=topics["keep"], name="m:g", delivery=DeliveryKind.AT_LEAST_ONCE
    )
    return plain, kept


def atoms(stage: RightsStage, role: Role, wanted: RoleRights) -> Iterator[Atom]:
    """Yield every right that the role has."""
    for of_kafka in wanted.kafka:
        yield from kafka_atoms(stage, role, of_kafka)
    if wanted.redis is not None:
        yield from redis_atoms(stage, role, wanted.redis)
    for rights in wanted.sql.values():
        for one in rights:
            yield from sql_atoms(stage, role, one)


def kafka_atoms(stage: RightsStage, role: Role, right: KafkaRight) -> Iterator[Atom]:
    kind, kafka = KINDS[f"--{right.resource}"], stage.secured.kafka
    place = f"{right.resource} {right.name}" + ("*" if right.is_prefix else "")
    for one in sorted(right.operations | right.wished):
        named = (role, kind, right.name, OPERATIONS[one])
        give = partial(kafka.allow, *named, prefixed=right.is_prefix)
        yield Atom(f"has no right {one} on {place}", partial(kafka.take_away, *named), give)


def redis_atoms(stage: RightsStage, role: Role, right: RedisRight) -> Iterator[Atom]:
    change = partial(stage.secured.redis.set_user, role)
    (key,) = right.keys
    yield Atom(f"keys {key}", partial(change, "resetkeys"), partial(change, f"~{key}"))
    for one in right.channels:
        take, give = partial(change, "resetchannels"), partial(change, f"&{one}")
        yield Atom(f"channels {one}", take, give)
    for one in sorted(right.commands | right.wished):
        name = f"has no right to the command {one.replace('|', ' ').upper()}"
        if one in ("publish", "subscribe"):
            name += f" on channels {right.channels[0]}"
        elif right.commands == {one}:
            name += f" on keys {key}"
        yield Atom(name, partial(change, f"-{one}"), partial(change, f"+{one}"))


def sql_atoms(stage: RightsStage, role: Role, right: SqlRight) -> Iterator[Atom]:
    name = {"DATABASE": stage.database, "SCHEMA": "public"}.get(right.kind, right.name)
    for one in right.privileges:
        place = f"{one} ON {right.kind} {name}"
        yield Atom(
            f"has no right {one} on {right.kind.lower()} {name}",
            partial(stage.run_sql, f'REVOKE {place} FROM "{role}"'),
            partial(stage.run_sql, f'GRANT {place} TO "{role}"'),
        )
