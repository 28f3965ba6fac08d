"""Whether the users of the settings have the rights of a role: for `check`, and before a start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from feedback.errors import NotAvailable
from feedback.rights.kafka_missing import missing_of_kafka
from feedback.rights.login_names import NOBODY, database_urls, user_of_kafka
from feedback.rights.needed import KafkaRight, MissingRight, Role
from feedback.rights.redis_missing import missing_of_redis
from feedback.rights.senders import own_topics, sending_rights
from feedback.rights.sql_missing import missing_of_sql
from feedback.settings.settings import Settings

RightsQuestion = Callable[[], list[MissingRight]]


def questions(
    role: Role,
    settings: Settings,
    kafka: Sequence[KafkaRight],
    *,
    known: Collection[str] = (),
) -> Iterator[tuple[str, RightsQuestion]]:
    """Yield a question for each server that the role uses, by the server's name.

    Args:
        kafka: the rights of the role there.
        known: the topics by which rights to a prefix are looked at.
    """
    if kafka:
        yield "kafka", partial(missing_of_kafka, kafka, settings, known=known)
    yield "redis", partial(missing_of_redis, role, settings)
    for section in database_urls(settings):
        yield section, partial(missing_of_sql, role, settings, section)


def require_rights(
    role: Role,
    settings: Settings,
    kafka: Sequence[KafkaRight],
    *,
    known: Collection[str] = (),
) -> None:
    """Return when the users of a service have the rights without which it fails.

    A server that is away is left to the service, which waits for it or says so. Brokers
    without a login are not asked: nearly none of them has rights, and it would take 0.1 s.

    Args:
        kafka: the rights of the role there.
        known: the topics by which rights to a prefix are looked at.

    Raises:
        NotAvailable: some are missing; names each, with the command that grants it.
    """
    asked = questions(role, settings, kafka, known=known)
    is_known = user_of_kafka(settings.kafka) != NOBODY
    _require(ask for server, ask in asked if server != "kafka" or is_known)


def require_redis_rights(role: Role, settings: Settings) -> None:
    """Do the same for Redis alone.

    Raises:
        NotAvailable: see `require_rights`.
    """
    _require([partial(missing_of_redis, role, settings)])


def _require(asked: Iterable[RightsQuestion]) -> None:
    # All at once: a server that hangs holds up none of the others.
    with ThreadPoolExecutor() as threads:
        answers = threads.map(_missing_of, asked)
        missing = [str(one) for answer in answers for one in answer if one.is_needed]
    if missing:
        raise NotAvailable("rights are missing:\n  " + "\n  ".join(missing))


def _missing_of(ask: RightsQuestion) -> list[MissingRight]:
    with suppress(NotAvailable):
        return ask()
    return []


def require_sending_rights(role: Role, settings: Settings) -> None:
    """Do the same for one of `SENDERS`, which knows its topics of requests by its settings.

    Raises:
        NotAvailable: see `require_rights`.
    """
    require_rights(role, settings, sending_rights(role, own_topics(settings)))
