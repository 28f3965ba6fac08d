"""The commands that grant rights, quoted for the program that reads them. Pure.

A name may hold anything: topics and groups that Kafka would not take are refused, since a topic `*`
in an ACL means all of them, and every user is quoted.
"""

from __future__ import annotations

import re
import shlex

from feedback.errors import SettingsError
from feedback.rights.needed import KafkaRight, RedisRight, SqlRight

_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
# A word that redis-cli reads as it stands.
_BARE = re.compile(r"[A-Za-z0-9._:~&*+|@/-]+", re.ASCII)
# A user of Redis is one word, and none of the rules that may follow.
_REDIS_USER = re.compile(r"[^\s\x00-\x1f\x7f]+")


def admin_config(security_protocol: str) -> str:
    """Return the file with the administrator's own login; empty where brokers ask for none."""
    return "" if security_protocol == "PLAINTEXT" else "admin.properties"


def kafka_line(right: KafkaRight, *, user: str, brokers: str, config: str = "") -> str:
    """Return the `kafka-acls` command for one resource, for a shell.

    Args:
        user: without `User:`.
        config: see `admin_config`.

    Raises:
        SettingsError: Kafka has no resource of such a name, or the user would be all users.
    """
    if user in ("", "*"):
        raise SettingsError(f"an ACL of user {user!r} is one of all users: name one with --user")
    if not _LEGAL.fullmatch(right.name):
        raise SettingsError(f"Kafka has no {right.resource} named {right.name!r}: correct the name")
    words = ["kafka-acls", "--bootstrap-server", brokers]
    if config:
        words += ["--command-config", config]
    words += ["--add", "--allow-principal", f"User:{user}"]
    for operation in sorted(right.operations | right.wished):
        words += ["--operation", operation]
    words += [f"--{right.resource}", right.name]
    if right.is_prefix:
        words += ["--resource-pattern-type", "prefixed"]
    return shlex.join(words)


def redis_line(right: RedisRight, *, user: str) -> str:
    """Return the `ACL SETUSER` command, for redis-cli.

    Raises:
        SettingsError: Redis has no user of such a name.
    """
    if not _REDIS_USER.fullmatch(user):
        raise SettingsError(f"Redis has no user named {user!r}: name one without spaces")
    rules = [f"~{one}" for one in right.keys] + [f"&{one}" for one in right.channels]
    rules += [f"+{one}" for one in sorted(right.commands | right.wished)]
    return " ".join(["ACL SETUSER", *map(_redis_word, [user, *rules])])


def sql_line(right: SqlRight, *, user: str, database: str, schema: str) -> str:
    """Return the `GRANT` command, for PostgreSQL.

    Args:
        database: the name of the database.
        schema: where the tables are.
    """
    name = {"DATABASE": database, "SCHEMA": schema}.get(right.kind, right.name)
    place = _identifier(name)
    if right.kind in ("TABLE", "SEQUENCE"):
        place = f"{_identifier(schema)}.{place}"
    privileges = ", ".join(right.privileges)
    return f"GRANT {privileges} ON {right.kind} {place} TO {_identifier(user)};"


def _redis_word(word: str) -> str:
    if _BARE.fullmatch(word):
        return word
    return '"' + "".join(_redis_byte(one) for one in word.encode()) + '"'


def _redis_byte(one: int) -> str:
    letter = chr(one)
    return letter if _BARE.fullmatch(letter) else f"\\x{one:02x}"


def _identifier(name: str) -> str:
    if not name or "\0" in name:
        raise SettingsError(f"PostgreSQL has no name {name!r}: correct it")
    return '"' + name.replace('"', '""') + '"'
