"""Foreign bytes for a person: JSON laid out, text as it is, anything else in hex. Pure."""

from __future__ import annotations

from typing import NamedTuple

from consumer.dlq.as_json import utf8_or_none
from consumer.dlq.reindent import is_json, reindented
from feedback.console.printable import printable

HEX_WIDTH = 16


class Decoded(NamedTuple):
    """The kind of some bytes, and their text for a terminal.

    Args:
        kind: `null`, `JSON`, `text` or `bytes`.
        size_bytes: how many there are.
        text: printable, cut.
        cut: whether there is more.
    """

    kind: str
    size_bytes: int
    text: str
    cut: bool


def decoded(raw: bytes | None, *, limit: int) -> Decoded:
    """Return bytes for a terminal.

    Args:
        limit: so many characters of text, or bytes in hex, at most.
    """
    if raw is None:
        return Decoded("null", 0, "", cut=False)
    text = utf8_or_none(raw)
    if text is None:
        return Decoded("bytes", len(raw), hex_lines(raw[:limit]), cut=len(raw) > limit)
    kind = "text"
    if is_json(text):
        # A little more than the shown part, to learn that there is more.
        kind, text = "JSON", reindented(text, limit=2 * limit)
    shown = printable(text[:limit], also="\n\t")
    return Decoded(kind, len(raw), shown, cut=len(text) > limit)


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
    text = utf8_or_none(raw)
    # Binary numbers are valid UTF-8 by accident, so text with control characters is shown in hex.
    if text is None or any(c < " " and c not in "\n\r\t" for c in text[:limit]):
        shown, cut = "0x" + raw[:limit].hex(), len(raw) > limit
    else:
        shown, cut = printable(text[:limit]), len(text) > limit
    return shown + ("…" if cut else "")
