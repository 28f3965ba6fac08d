"""Whether the users of the settings have the rights of a role: for `check`, and before a start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from consumer.handlers.declaration import Handler
from consumer.ops.rights.kafka_missing import missing_of_kafka
from consumer.ops.rights.needed import MissingRight, Role
from consumer.ops.rights.redis_missing import missing_of_redis
from consumer.ops.rights.roles import database_urls
from consumer.ops.rights.sql_missing import missing_of_sql
from feedback.errors import NotAvailable
from feedback.settings.settings import Settings

Question = Callable[[], list[MissingRight]]


def questions(
    role: Role, settings: Settings, handlers: Sequence[Handler]
) -> Iterator[tuple[str, Question]]:
    """Yield a question for each server that the role uses, by the server's name."""
    yield "kafka", partial(missing_of_kafka, role, settings, handlers)
    yield "redis", partial(missing_of_redis, role, settings)
    for section in database_urls(settings):
        yield section, partial(missing_of_sql, role, settings, section)


def require_rights(settings: Settings, handlers: Sequence[Handler]) -> None:
    """Return when the worker's users have the rights without which it fails.

    A server that is away is left to the worker, which waits for it or says so. Brokers that do not
    ask who one is are not asked: nearly none of them has rights, and it would take 0.1 s.

    Raises:
        NotAvailable: some are missing; names each, with the command that grants it.
    """
    missing: list[str] = []
    for server, ask in questions(Role.WORKER, settings, handlers):
        if server == "kafka" and settings.kafka.security_protocol in ("PLAINTEXT", "SSL"):
            continue
        try:
            missing += [str(one) for one in ask() if one.is_needed]
        except NotAvailable:
            continue
    if missing:
        raise NotAvailable("rights are missing:\n  " + "\n  ".join(missing))
