"""All rights of a role."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from consumer.handlers.declaration import Handler
from consumer.ops.needed_topics import names_of_topics
from consumer.ops.rights.kafka_rights import kafka_rights
from feedback.rights.login_names import database_urls
from feedback.rights.looking import require_rights
from feedback.rights.needed import Role, RoleRights
from feedback.rights.redis_rights import redis_right
from feedback.rights.sql_rights import sql_rights
from feedback.settings.settings import Settings


def rights_of(role: Role, settings: Settings, handlers: Iterable[Handler]) -> RoleRights:
    """Return the rights that a role needs with these settings.

    A database that the settings do not name is left out.

    Args:
        handlers: those of the settings; none where there are none.

    Raises:
        SettingsError: a name of Kafka would be too long.
    """
    urls = database_urls(settings)
    return RoleRights(
        kafka=kafka_rights(role, settings, handlers),
        redis=redis_right(role, group=settings.kafka.group, url=settings.redis.url),
        sql={section: rights for section, rights in sql_rights(role).items() if urls[section]},
    )


def require_worker_rights(settings: Settings, handlers: Sequence[Handler]) -> None:
    """Return when the worker's users have the rights without which it fails.

    Raises:
        NotAvailable: some are missing; see `feedback.rights.looking.require_rights`.
    """
    rights = kafka_rights(Role.WORKER, settings, handlers)
    require_rights(Role.WORKER, settings, rights, known=names_of_topics(settings, handlers))
