"""The commands of Redis that each role sends, itself or inside its scripts. Pure."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from consumer.ops.rights.needed import RedisRight, Role

# Of the script that writes statuses: feedback/redis/status_script.py.
_WRITING = frozenset(
    (
        *("evalsha", "script|load", "time", "hmget", "hget", "hset", "hdel"),
        *("del", "set", "exists", "pexpire", "zadd", "zrem", "publish"),
    )
)
# To look at a status, and whether its worker lives: feedback/redis/store_calls.py.
_READING = frozenset(["hgetall", "exists"])
# To be woken by another one's write: feedback/redis/events.py.
_HEARING = frozenset(["subscribe", "unsubscribe"])
# To look for open requests: feedback/redis/deadlines.py.
_TAKING = frozenset(["zrangebyscore", "zscore", "zscan"])

COMMANDS: dict[Role, frozenset[str]] = {
    Role.WORKER: _WRITING | _READING | frozenset(["eval", "get", "pttl"]),
    Role.CLIENT: _WRITING | _READING | _HEARING | frozenset(["eval", "get", "zscore", "hsetnx"]),
    Role.RESENDER: _WRITING | _READING | _TAKING | frozenset(["eval", "get", "strlen"]),
    Role.RELAY: _WRITING | _READING | frozenset(["eval", "get"]),
    Role.REGISTRY: frozenset(["exists", "get"]),
    Role.OPERATOR: _WRITING | _READING | frozenset(["eval", "get", "pttl"]),
    Role.AUDITOR: _READING,
}
# Says when the server started, and so whether it may have forgotten; and what it does when full.
WISHED = frozenset({"info"})


def redis_right(role: Role, *, group: str, url: str) -> RedisRight | None:
    """Return the rights of a role; None where it asks Redis nothing.

    Args:
        url: of the settings; another database than 0 has to be chosen.

    >>> redis_right(Role.AUDITOR, group="g", url="redis://cache:6379/3").keys
    ('onceward:g:*',)
    """
    commands = COMMANDS.get(role)
    if commands is None:
        return None
    if _database(url) not in ("", "0"):
        commands = commands | {"select"}
    own = (f"onceward:{group}:*",)
    hears = bool(commands & {"publish", "subscribe"})
    return RedisRight(commands, WISHED, own, own if hears else ())


def _database(url: str) -> str:
    parts = urlsplit(url)
    named = parse_qs(parts.query).get("db", [""])[0]
    in_path = "" if parts.scheme == "unix" else parts.path.strip("/")
    return named or in_path
