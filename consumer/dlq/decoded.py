"""Foreign bytes for a person: JSON laid out, text as it is, anything else in hex. Pure."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from consumer.dlq.as_json import utf8_or_none
from feedback.console.printable import printable
from feedback.records.envelope import NullHeader

# Of a failure's message in a list.
MESSAGE_LIMIT = 400

HEX_WIDTH = 16


class DecodedBytes(NamedTuple):
    """The kind of some bytes, and their text for a terminal.

    Args:
        kind: `null`, `JSON`, `text` or `bytes`.
    """

    kind: str
    size_bytes: int
    text: str
    cut: bool


def decoded(raw: bytes | None, *, limit: int) -> DecodedBytes:
    """Return bytes for a terminal.

    Args:
        limit: so many characters of text, or bytes in hex, at most.
    """
    if raw is None:
        return DecodedBytes("null", 0, "", cut=False)
    text = utf8_or_none(raw)
    if text is None:
        return DecodedBytes("bytes", len(raw), hex_lines(raw[:limit]), cut=len(raw) > limit)
    kind = "text"
    if is_json(text):
        # A little more than the shown part, to learn that there is more.
        kind, text = "JSON", reindented(text, limit=2 * limit)
    shown = printable(text[:limit], also="\n\t")
    return DecodedBytes(kind, len(raw), shown, cut=len(text) > limit)


def hex_lines(raw: bytes) -> str:
    """Return bytes in hex, with their ASCII characters beside it.

    >>> hex_lines(b"ab" + bytes([0, 255]))
    '00000000  61 62 00 ff                                      ab..'
    """
    lines = []
    for begin in range(0, len(raw), HEX_WIDTH):
        part = raw[begin : begin + HEX_WIDTH]
        ascii_text = "".join(chr(one) if 32 <= one < 127 else "." for one in part)
        lines.append(f"{begin:08x}  {part.hex(' '):{HEX_WIDTH * 3 - 1}}  {ascii_text}")
    return "\n".join(lines)


def header_text(raw: bytes, *, limit: int) -> str:
    """Return a header's value on one line."""
    if isinstance(raw, NullHeader):
        return "null"
    text = utf8_or_none(raw)
    # Binary numbers are valid UTF-8 by accident, so text with control characters is shown in hex.
    if text is None or any(c < " " and c not in "\n\r\t" for c in text[:limit]):
        shown, cut = "0x" + raw[:limit].hex(), len(raw) > limit
    else:
        shown, cut = printable(text[:limit]), len(text) > limit
    return shown + ("…" if cut else "")


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


def without_layout(text: str) -> str:
    """Return JSON without the blanks between its tokens.

    >>> without_layout('{"a b": [1, 2.10]}')
    '{"a b":[1,2.10]}'
    """
    return "".join(match[0] for match in _TOKEN.finditer(text))


def _line(depth: int) -> str:
    return "\n" + _STEP * min(depth, DEEPEST)
