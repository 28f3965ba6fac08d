"""Answers of brokers can be read where Python leaves assertions out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
LIMIT_S = 60.0
PROGRAM = """
import io
import feedback.kafka.kafka_python.engine
from kafka.protocol.schemas.fields.codecs.tagged_fields import TaggedFields
answer = io.BytesIO(bytes([0, 7, 1]))
TaggedFields.decode_empty(answer)
print(*answer.read(1))
try:
    TaggedFields.decode_empty(answer)
except ValueError as error:
    print(error)
"""


def test_without_assertions_too_the_end_of_a_structure_is_read() -> None:
    done = subprocess.run(
        (sys.executable, "-O", "-c", PROGRAM),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    assert done.stdout.splitlines() == ["7", "1 tagged fields where there should be none"]
