"""All rights of a role, and the names of its users. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from consumer.handlers.declaration import Handler
from consumer.ops.rights.kafka_rights import kafka_rights
from consumer.ops.rights.needed import Role, RoleRights
from consumer.ops.rights.redis_rights import redis_right
from consumer.ops.rights.sql_rights import sql_rights
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


def database_urls(settings: Settings) -> dict[str, str]:
    """Return the URL of each database, by its section; empty where there is none."""
    journal = settings.journal.url
    return {
        "journal": journal,
        "registry": settings.registry.url or journal,
        "outbox": settings.outbox.url,
    }


def user_of(url: str) -> str:
    """Return the user that a URL names; empty where it names none.

    >>> user_of("rediss://bank%40payments:secret@cache:6379/0")
    'bank@payments'
    """
    return unquote(urlsplit(url).username or "")
