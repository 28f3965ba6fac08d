"""The audit of a day with failures: every one has its dead letter, and every letter its failure."""

import pytest

from feedback.errors import ExitCode
from feedback.status import State
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.consumer.foreign import identity
from tests.spark_audit.days.conftest import Audit

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def test_the_audit_misses_no_letter_and_takes_none_for_too_much(
    make_box: MakeBox, audit: Audit
) -> None:
    box = make_box("work", "refusing")
    stage = box.stage
    worker = stage.start()
    topic = stage.topics["work"]
    good = stage.client.send({"answer": 1}, topic=topic)
    assert good.wait(30).state is State.SUCCEEDED
    rejected = stage.client.send({"do": "reject"}, topic=topic).request_id
    refused = stage.produce(b"{}", handler="refusing").coordinates_id
    malformed = stage.produce(b"{}", headers=[("onceward-attempt", b"x")]).coordinates_id
    taken = stage.produce(b"another", headers=identity(good.request_id, 2)).coordinates_id
    box.closed([rejected, refused, malformed, taken])
    assert worker.stop() == 0
    assert box.counted() == dict.fromkeys([rejected, malformed, taken], 1)
    judged = audit(stage)
    assert (judged.exit_code, judged.requests) == (ExitCode.FINE, 5)
    assert judged.found == {
        "malformed": [malformed],
        "payload_mismatch": [good.request_id],
        "resent": [good.request_id],
    }
