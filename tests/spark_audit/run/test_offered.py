"""What stands in `resend.jsonl` is the lost request itself, from a journal that can be believed."""

from __future__ import annotations

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

from feedback.records.envelope import REQUEST_ID, payload_sha256
from feedback.records.stored_payload import StoredPayload
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.status import State
from feedback.statuses import StatusWrite
from spark_audit.output.paths import DayPaths
from spark_audit.say.resend_lines import LostRecord, PayloadReader
from tests.eventually import eventually
from tests.spark_audit.run.scene import IDS, LOST, Scene
from tests.spark_audit.stage.samples import DATE

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True),
]


def _make_anew(scene: Scene) -> None:
    """Delete the topic, make it again, and let others' records stand at the same offsets."""
    with KafkaAdminClient(bootstrap_servers=scene.servers.kafka) as admin:
        admin.delete_topics([scene.topic])

        def is_made() -> bool:
            try:
                admin.create_topics([NewTopic(scene.topic, 1, 1)])
            except TopicAlreadyExistsError:
                return False
            return True

        eventually(is_made, timeout_s=30, what="the topic to be deleted")
        admin.wait_for_topics([scene.topic])
    producer = KafkaProducer(bootstrap_servers=scene.servers.kafka)
    for request_id in IDS:
        headers = [(REQUEST_ID, f"other-{request_id}".encode())]
        producer.send(scene.topic, b'{"another": 1}', headers=headers, partition=0)
    producer.close()


def _pending(request_id: str, payload: StoredPayload) -> StatusWrite:
    digest = payload_sha256(payload.key, payload.value)
    return StatusWrite(request_id, State.PENDING, 1, 0, digest, payload=payload)


def test_another_record_at_a_lost_ones_place_is_not_its_payload(scene: Scene) -> None:
    lost = LostRecord(LOST, scene.topic, 0, IDS.index(LOST), payload_sha256(None, b"{}"))
    with PayloadReader(scene.settings()) as payloads:
        (found,) = payloads.read([lost])
    assert found is not None
    assert found[:2] == (None, b"{}")
    _make_anew(scene)
    with PayloadReader(scene.settings()) as payloads:
        assert payloads.read([lost]) == [None]


def test_many_lost_ones_are_read_together_from_redis_and_from_kafka(scene: Scene) -> None:
    settings = scene.settings()
    digest = payload_sha256(None, b"{}")
    lost = [LostRecord(name, scene.topic, 0, at, digest) for at, name in enumerate(IDS)]
    lost.append(LostRecord("kept", scene.topic, 0, 2**40, payload_sha256(b"k", b"kept")))
    lost.append(LostRecord("gone", scene.topic, 0, 2**40, digest))
    lost.append(LostRecord("another's", scene.topic, 0, 0, payload_sha256(None, b"other")))
    store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
    payload = StoredPayload(scene.topic, b"k", b"kept", ())
    store.write([_pending("kept", payload), _pending(IDS[0], payload)])
    store.write([StatusWrite(IDS[1], State.RUNNING, 1, 1, digest)])
    store.close()
    with PayloadReader(settings) as payloads:
        found = payloads.read(lost)
        begun = payloads.begun([*IDS, "nobody's"])
    # What Redis keeps under an id may be another payload than the one that was judged.
    assert [one and one[:2] for one in found] == [
        *[(None, b"{}")] * len(IDS),
        (b"k", b"kept"),
        None,
        None,
    ]
    assert begun == [name == IDS[1] for name in [*IDS, "nobody's"]]


# Two whole audits of what the test above says of the payload alone.
@pytest.mark.long
def test_another_record_at_a_lost_ones_place_is_not_offered_under_its_id(scene: Scene) -> None:
    scene.audit()
    assert scene.offered() == [LOST]
    _make_anew(scene)
    # The same day from its snapshot; only payloads are read from Kafka.
    again = scene.audit()
    assert scene.offered() == []
    assert again.summary["resend"]["payload_gone"] == 1


def test_a_journal_that_has_lost_what_clients_were_told_offers_nothing(scene: Scene) -> None:
    settings = scene.settings()
    store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
    store.write([StatusWrite("r-8", State.SUCCEEDED, 1, 1, payload_sha256(None, b"{}"))])
    store.close()
    # Restored from an older copy; of the other requests Redis has forgotten the status.
    scene.journal.change('DELETE FROM onceward_request WHERE "offset" >= 8')
    outcome = scene.audit()
    assert outcome.summary["counts"]["findings"]["lost"] == 5
    assert scene.offered() == []
    assert (outcome.summary["resend"]["begun"], outcome.summary["resend"]["withheld"]) == (1, 4)
    page = DayPaths(scene.output, DATE).page.read_text()
    assert "they may have run" in page
    assert "So the journal has lost rows" in page
