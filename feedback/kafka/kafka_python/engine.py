"""The engine, as one value."""

from __future__ import annotations

from feedback.kafka.engine import Engine
from feedback.kafka.kafka_python.administrator import KafkaPythonAdministrator
from feedback.kafka.kafka_python.batches import KafkaPythonSilences
from feedback.kafka.kafka_python.fence import KafkaPythonFences
from feedback.kafka.kafka_python.member import KafkaPythonMember
from feedback.kafka.kafka_python.partition_reader import KafkaPythonReader
from feedback.kafka.kafka_python.producer import KafkaPythonProducer
from feedback.kafka.kafka_python.rights import KafkaPythonRights

KAFKA_PYTHON = Engine(
    name="kafka-python",
    member=KafkaPythonMember,
    reader=KafkaPythonReader,
    administrator=KafkaPythonAdministrator,
    producer=KafkaPythonProducer,
    fences=KafkaPythonFences,
    rights=KafkaPythonRights,
    silences=KafkaPythonSilences,
    spacing_s=0.01,
)
