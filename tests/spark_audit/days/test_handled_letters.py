"""The audit of a day whose dead letters were handled: they are no requests of the day."""

from pathlib import Path

import pytest

from feedback.errors import ExitCode
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.writer import KafkaWriter
from feedback.records.envelope import Envelope, encode_headers
from feedback.settings.settings import KafkaSection
from feedback.status import State
from tests.consumer.features.dead_letters.conftest import FAILING, MakeBox
from tests.consumer.features.dead_letters.ward import LETTERS, Ward
from tests.consumer.stage import HANDLERS
from tests.spark_audit.days.conftest import Audit

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def test_letters_that_were_handled_are_neither_requests_nor_findings(
    make_box: MakeBox, audit: Audit, tmp_path: Path
) -> None:
    worker = {"handlers": [HANDLERS, FAILING, LETTERS]}
    ward = Ward(make_box("refusing", worker=worker), tmp_path, insisting="refusing")
    stage = ward.stage
    running = ward.start()
    good, fails, twice = (
        stage.produce(value, handler="refusing").coordinates_id
        for value in (b"{}", b'{"then": "reject"}', b'{"then": "raise-twice"}')
    )
    ward.row(f"{good}.dlq.1", State.SUCCEEDED)
    ward.row(f"{fails}.dlq.1", State.FAILED)
    assert ward.row(f"{twice}.dlq.1", State.SUCCEEDED)["generation"] == 3
    # As the resender writes one that its worker lost.
    letter = ward.box.letter(good, "refusing")
    headers = encode_headers(Envelope(f"{good}.dlq.1", 2, letter.timestamp_ms), letter.headers)
    writer = KafkaWriter(KafkaSection(bootstrap_servers=ward.box.kafka, group="unused"))
    again = Outgoing(letter.topic, None, letter.key, letter.value, tuple(headers))
    assert writer.write([again]) == [None]
    writer.close()
    assert running.stop() == 0
    judged = audit(stage)
    assert (judged.exit_code, judged.requests, judged.found) == (ExitCode.FINE, 3, {})
