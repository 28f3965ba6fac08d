"""Whether Redis lets this user send a command, asked without sending it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from redis import Redis
from redis.exceptions import NoPermissionError

from feedback.redis.server import guarded

# Asks by the server's own judgement, which knows commands, keys and channels (Redis 7).
_ASK = """
if not redis.acl_check_cmd then return false end
local refused = {}
for at = 1, #ARGV do
  if not redis.acl_check_cmd(unpack(cjson.decode(ARGV[at]))) then table.insert(refused, at) end
end
return refused
"""


class MayNotAsk(Exception):
    """This user may not run scripts: nothing else can be asked."""


def refused_commands(redis: Redis, commands: Sequence[Sequence[str]]) -> list[int] | None:
    """Return the positions of those commands that this user may not send; None before Redis 7.

    Args:
        commands: each with as many arguments as its keys and channels need.

    Raises:
        MayNotAsk: this user may not send EVAL.
        RedisUnavailable: Redis did not answer.
    """
    words = [json.dumps([*one]) for one in commands]
    with guarded():
        try:
            found = cast("list[int] | None", redis.eval(_ASK, 0, *words))
        except NoPermissionError as error:
            raise MayNotAsk from error
    return None if found is None else [at - 1 for at in found]
