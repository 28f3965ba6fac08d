"""The commands of Redis that each role sends, itself or inside its scripts. Pure."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from feedback.rights.needed import RedisRight, Role

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
    Role.WORKER: _WRITING | _READING | {"eval", "get", "hsetnx"},
    Role.CLIENT: _WRITING | _READING | _HEARING | {"eval", "get", "zscore"},
    Role.RESENDER: _WRITING | _READING | _TAKING | {"eval", "get", "strlen"},
    Role.RELAY: _WRITING | _READING | {"eval", "get"},
    Role.REGISTRY: frozenset({"exists"}),
    Role.OPERATOR: _WRITING | _READING | {"eval", "get", "hsetnx", "pttl", "zscore"},
    Role.AUDITOR: _READING,
}
# For roles that run scripts: INFO says when the server started, so whether it may have forgotten.
# For the others: with EVAL `check` can ask which commands they may send.
_STARTED, _ASKING = frozenset({"info"}), frozenset({"eval"})


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
    wished = _STARTED if "eval" in commands else _ASKING
    hears = bool(commands & {"publish", "subscribe"})
    return RedisRight(commands, wished, own, own if hears else ())


def _database(url: str) -> str:
    parts = urlsplit(url)
    named = parse_qs(parts.query).get("db", [""])[0]
    in_path = "" if parts.scheme == "unix" else parts.path.strip("/")
    return named or in_path
