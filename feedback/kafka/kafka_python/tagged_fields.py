"""Lets kafka-python 3.0 read answers where Python leaves assertions out (`PYTHONOPTIMIZE`, `-O`).

It reads the byte at the end of a structure, its number of tagged fields, within an assertion. Where
that was left out, so was the byte: no answer with such a structure could be read, and Kafka was
said to be away. Importing this module has it read always.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.schemas.fields.codecs.tagged_fields import TaggedFields
from kafka.protocol.schemas.fields.codecs.types import UnsignedVarInt32


def _read_none(_: type[TaggedFields], data: Any) -> None:
    number = UnsignedVarInt32.decode(data)
    if number != 0:
        raise ValueError(f"{number} tagged fields where there should be none")


TaggedFields.decode_empty = classmethod(_read_none)
