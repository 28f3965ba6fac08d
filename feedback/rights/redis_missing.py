"""The rights that Redis does not give to the user of the settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing

from feedback.redis.rights import MayNotAsk, refused_commands
from feedback.redis.server import connect
from feedback.rights.lines import redis_line
from feedback.rights.login_names import user_of
from feedback.rights.needed import MissingRight, RedisRight, Role
from feedback.rights.redis_rights import redis_right
from feedback.settings.settings import Settings

# The arguments of commands without a key; all others begin with one.
_WORDS = {
    "evalsha": ("evalsha", "0" * 40, "0"),
    "eval": ("eval", "return 1", "0"),
    "script|load": ("script", "load", "return 1"),
    "time": ("time",),
    "info": ("info", "server"),
    "select": ("select", "0"),
    "unsubscribe": ("unsubscribe",),
}
_ON_CHANNELS = frozenset({"publish", "subscribe"})


def missing_of_redis(role: Role, settings: Settings) -> list[MissingRight]:
    """Return the rights that Redis does not give to the user of a role; none before Redis 7.

    Raises:
        RedisUnavailable: Redis did not answer.
    """
    right = redis_right(role, group=settings.kafka.group, url=settings.redis.url)
    if right is None:
        return []
    user = user_of(settings.redis.url) or "default"
    commands = sorted(right.commands | right.wished)
    with closing(connect(settings.redis)) as client:
        try:
            refused = refused_commands(client, [_words(one, right) for one in commands])
        except MayNotAsk:
            return [_right_to_a_command("eval", right, user)]
    lacking = {commands[at] for at in refused or ()}
    return [*_sentences(right, lacking, user)]


def _words(command: str, right: RedisRight) -> tuple[str, ...]:
    if command in _ON_CHANNELS:
        channel = right.channels[0].replace("*", "check")
        # All arguments of SUBSCRIBE are channels; PUBLISH has a message behind its one.
        return (command, channel, "") if command == "publish" else (command, channel)
    return _WORDS.get(command) or (command, right.keys[0].replace("*", "check"))


def _sentences(right: RedisRight, lacking: Iterable[str], user: str) -> Iterator[MissingRight]:
    """Yield a sentence for each command; for keys and channels, where all that need them fail."""
    left = {*lacking}
    nothing = right._replace(commands=frozenset(), wished=frozenset(), keys=(), channels=())
    for needing, thing, alone in (
        (_keyed(right), f"keys {' '.join(right.keys)}", nothing._replace(keys=right.keys)),
        (
            right.commands & _ON_CHANNELS,
            f"channels {' '.join(right.channels)}",
            nothing._replace(channels=right.channels),
        ),
    ):
        # One command alone may be missing by itself.
        if needing and needing <= left and len(needing) > 1:
            left -= needing
            sentence = f"Redis: user {user} has no right to the {thing}"
            yield MissingRight(sentence, redis_line(alone, user=user))
    for one in sorted(left):
        yield _right_to_a_command(one, right, user)


def _keyed(right: RedisRight) -> frozenset[str]:
    """Return the commands that need a key."""
    return right.commands - _WORDS.keys() - _ON_CHANNELS


def _right_to_a_command(command: str, right: RedisRight, user: str) -> MissingRight:
    # Where one command alone needs a channel or a key, either may be missing.
    channels = right.channels if command in _ON_CHANNELS else ()
    keys = right.keys if {command} == _keyed(right) else ()
    alone = RedisRight(frozenset({command}), frozenset(), keys, channels)
    return MissingRight(
        f"Redis: user {user} has no right to the command {command.replace('|', ' ').upper()}"
        + (f" on channels {' '.join(channels)}" if channels else "")
        + (f" on keys {' '.join(keys)}" if keys else ""),
        redis_line(alone, user=user),
        is_needed=command in right.commands,
    )
