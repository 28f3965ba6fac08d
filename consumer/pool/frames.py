"""Frames on a byte stream: two 4-byte lengths, a JSON header, raw bytes.

Nothing is unpickled: bytes from a child are data, and a malformed frame is refused.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

_LENGTHS = struct.Struct("!II")
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder().decode

FrameHeader = dict[str, Any]
Frame = tuple[FrameHeader, bytes]


class MalformedFrame(ValueError):
    """The bytes are no frame, or a frame has fields that it cannot have; the stream is unusable."""


def encode_frame(header: FrameHeader, tail: bytes = b"") -> bytes:
    """Return one frame of a JSON-able header and raw bytes."""
    text = _encode(header).encode("ascii")
    return b"".join((_LENGTHS.pack(len(text), len(tail)), text, tail))


class FrameDecoder:
    """Cuts a stream into frames, however it arrives.

    Args:
        limit_bytes: the longest frame that is accepted, None for any.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete with these bytes; to be taken to the end.

        Those before a malformed one are yielded before it raises: they count.

        Raises:
            MalformedFrame: too long, or its header is no JSON object.
        """
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _LENGTHS.size:
            header_bytes, tail_bytes = _LENGTHS.unpack_from(buffer, start)
            self._check_size(header_bytes + tail_bytes)
            header_at = start + _LENGTHS.size
            tail_at = header_at + header_bytes
            end = tail_at + tail_bytes
            if len(buffer) < end:
                break
            yield _header(buffer[header_at:tail_at]), bytes(buffer[tail_at:end])
            start = end
        del buffer[:start]

    def _check_size(self, size_bytes: int) -> None:
        if self._limit_bytes is not None and size_bytes > self._limit_bytes:
            raise MalformedFrame(f"{size_bytes} bytes, more than {self._limit_bytes}")


def _header(text: bytearray) -> FrameHeader:
    try:
        header = _decode(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise MalformedFrame(f"its header is no JSON ({type(error).__name__})") from None
    if not isinstance(header, dict):
        raise MalformedFrame("its header is no JSON object")
    return header
