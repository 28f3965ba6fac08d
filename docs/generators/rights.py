"""The rights of each role, from the module that prints them and looks at them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from consumer.handlers.backoff import Fixed
from consumer.handlers.declaration import DeliveryKind, Handler
from consumer.ops.rights.roles import rights_of
from docs.generators.markdown import code, table
from feedback.rights.needed import KafkaRight, RedisRight, Role, SqlRight
from feedback.settings.settings import Settings

_GROUP, _TOPIC, _KEPT = "GROUP", "TOPIC", "KEPT"


def markdown() -> str:
    """Return a heading and a table for each role, for a group with all kinds of topics."""
    return "\n\n".join(part for role in Role for part in _of_role(role))


def example() -> tuple[Settings, tuple[Handler, ...]]:
    """Return settings, and handlers that use all that a handler may have beside its topic."""
    postgres = {"url": "postgresql+psycopg://db/payments"}
    settings = Settings.model_validate(
        {
            "kafka": {"group": _GROUP},
            "journal": postgres,
            "registry": postgres,
            "outbox": postgres,
        }
    )
    plain = Handler(
        function=print,
        topic=_TOPIC,
        name="m:f",
        retries=Fixed("5s", tries=2),
        outcome_topic="OUTCOMES",
    )
    kept = Handler(function=print, topic=_KEPT, name="m:g", delivery=DeliveryKind.AT_LEAST_ONCE)
    return settings, (plain, kept)


def _of_role(role: Role) -> Iterator[str]:
    settings, handlers = example()
    rights = rights_of(role, settings, handlers)
    yield f"## {role}"
    rows = [*_of_kafka(rights.kafka)]
    if rights.redis is not None:
        rows += _of_redis(rights.redis)
    for section, some in rights.sql.items():
        rows += _of_sql(section, some)
    yield table(("server", "where", "rights", "better with"), rows)


def _of_kafka(rights: Iterable[KafkaRight]) -> Iterator[list[str]]:
    for one in rights:
        where = f"{one.resource} {code(one.name + '*' * one.is_prefix)}"
        yield ["Kafka", where, _listed(one.operations), _listed(one.wished)]


def _of_redis(right: RedisRight) -> Iterator[list[str]]:
    keys = [code(f"~{one}") for one in right.keys]
    channels = [code(f"&{one}") for one in right.channels]
    commands = " ".join(code(f"+{one}") for one in sorted(right.commands))
    wished = " ".join(code(f"+{one}") for one in sorted(right.wished))
    yield ["Redis", " ".join([*keys, *channels]), commands, wished]


def _of_sql(section: str, rights: Iterable[SqlRight]) -> Iterator[list[str]]:
    for one in rights:
        where = f"{one.kind.lower()} {code(one.name)}".strip()
        yield [f"database of `[{section}]`", where, ", ".join(one.privileges), ""]


def _listed(operations: Iterable[str]) -> str:
    return ", ".join(sorted(operations))
