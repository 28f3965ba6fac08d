"""JSON laid out for reading, nothing of it changed. Pure.

A parser would round numbers, drop repeated names and decode escapes that hide characters from the
terminal.
"""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s"\[\]{}:,]+')
_STEP = "  "
# Beyond, lines go no further to the right.
DEEPEST = 40


def is_json(text: str) -> bool:
    """Whether a text is JSON of an object or a list, not nested beyond all reason."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def reindented(text: str, *, limit: int) -> str:
    """Return JSON with each member on a line of its own.

    Args:
        limit: about so many characters, so that nothing small becomes something huge.

    >>> print(reindented('{"a":[1.10,2],"b":{}}', limit=100))
    {
      "a": [
        1.10,
        2
      ],
      "b": {}
    }
    """
    parts: list[str] = []
    depth = size = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in ("}", "]"):
            depth -= 1
            opened = parts[-1] in ("{", "[")
            parts += [token] if opened else [_line(depth), token]
        else:
            if parts and parts[-1] in ("{", "[", ","):
                parts.append(_line(depth))
            if token in ("{", "["):
                depth += 1
            parts.append(": " if token == ":" else token)
        size += len(token) + 2 * min(depth, DEEPEST)
        if size > limit:
            break
    return "".join(parts)


def _line(depth: int) -> str:
    return "\n" + _STEP * min(depth, DEEPEST)
