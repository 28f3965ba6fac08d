"""`onceward-worker rights`: the commands that grant each role its rights."""

from __future__ import annotations

from collections.abc import Iterator

import click
from sqlalchemy import make_url

from consumer.handlers.declaration import Handler
from consumer.handlers.registry import HandlerRegistry
from consumer.ops.rights.roles import rights_of
from feedback.console.commands import OF_A_GROUP, config_option, settings_of
from feedback.errors import SettingsError
from feedback.rights.lines import admin_config, kafka_line, redis_line, sql_line
from feedback.rights.login_names import database_urls, schema_of, user_of
from feedback.rights.needed import Role, RoleRights
from feedback.settings.settings import Settings

FORMATS = ("acl", "redis", "sql")
# An end of line in a name would end a comment.
_COMMENT = {"acl": "#", "redis": "#", "sql": "--"}


@click.command()
@config_option
@click.option("--role", type=click.Choice([*map(str, Role)]), help="Of this role alone.")
@click.option(
    "--format", "chosen", type=click.Choice(FORMATS), help="These commands alone, to pipe them on."
)
@click.option("--user", help="Grant to this user; else to onceward-ROLE.")
def rights(config: str | None, role: str | None, chosen: str | None, user: str | None) -> None:
    """Print the commands that grant each role its rights; nothing is granted.

    They name the topics of the handlers, the group and the databases of the settings. Those for
    tables work after `onceward-worker migrate`. With --role and without --user, a user is the one
    that the settings name, so that each process can say what it needs itself.

    \b
    Examples:
      onceward-worker rights --config payments.toml
      onceward-worker rights --role worker --format acl --user bank --config payments.toml | sh
      onceward-worker rights --role worker --format redis --config payments.toml | redis-cli
      onceward-worker rights --role worker --format sql --config payments.toml | psql payments
    """
    settings = settings_of(config, needs=OF_A_GROUP)
    handlers = handlers_of(settings)
    for one in Role if role is None else [Role(role)]:
        wanted = rights_of(one, settings, handlers)
        users = users_of(settings, one, named=user, is_own=role is not None)
        for form in FORMATS if chosen is None else [chosen]:
            lines = list(grants(form, wanted, settings, users))
            if chosen is None and lines:
                click.echo(f"{_COMMENT[form]} {one}: {_PROGRAMS[form]}")
            for line in lines:
                click.echo(line)


_PROGRAMS = {"acl": "a shell", "redis": "redis-cli", "sql": "psql, after onceward-worker migrate"}


def handlers_of(settings: Settings) -> tuple[Handler, ...]:
    """Return the handlers that the settings name; none where they name no module.

    Raises:
        SettingsError: a module does not import.
    """
    modules = settings.worker.handlers
    if not modules:
        return ()
    return HandlerRegistry.load(modules, group=settings.kafka.group).handlers


def users_of(settings: Settings, role: Role, *, named: str | None, is_own: bool) -> dict[str, str]:
    """Return the users to grant to: of Kafka by `kafka`, of Redis by `redis`, and by database.

    Args:
        named: for all of them.
        is_own: take those of the settings where these name them.
    """
    urls = {"redis": settings.redis.url, **database_urls(settings)}
    own = {place: user_of(url) for place, url in urls.items()}
    own["kafka"] = settings.kafka.sasl_plain_username or ""
    default = f"onceward-{role}"
    return {place: named or (is_own and own[place]) or default for place in own}


def grants(
    form: str, wanted: RoleRights, settings: Settings, users: dict[str, str]
) -> Iterator[str]:
    """Yield the commands of one format.

    Args:
        form: one of `FORMATS`.

    Raises:
        SettingsError: a name cannot be one of the server's.
    """
    if form == "acl":
        brokers = settings.kafka.bootstrap_servers
        admin = admin_config(settings.kafka.security_protocol)
        for right in wanted.kafka:
            yield kafka_line(right, user=users["kafka"], brokers=brokers, config=admin)
    elif form == "redis":
        if wanted.redis is not None:
            yield redis_line(wanted.redis, user=users["redis"])
    else:
        yield from _sql(wanted, settings, users)


def _sql(wanted: RoleRights, settings: Settings, users: dict[str, str]) -> Iterator[str]:
    seen: set[str] = set()
    for section, rights in wanted.sql.items():
        url = database_urls(settings)[section]
        if url.startswith("sqlite"):
            continue  # who may read and write its file is the file system's to say
        try:
            database = make_url(url).database or users[section]
        except ValueError:
            raise SettingsError(f"[{section}] url is no URL: correct it") from None
        schema, user = schema_of(url), users[section]
        for right in rights:
            line = sql_line(right, user=user, database=database, schema=schema)
            if line not in seen:
                seen.add(line)
                yield line
