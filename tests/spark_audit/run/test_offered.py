"""What stands in `resend.jsonl` is the lost request itself, from a journal that can be believed."""

from __future__ import annotations

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

from feedback.records.envelope import REQUEST_ID, payload_sha256
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.status import State
from feedback.statuses import StatusWrite
from spark_audit.output.paths import Places
from spark_audit.say.resend_lines import PayloadReader
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


def test_another_record_at_a_lost_ones_place_is_not_its_payload(scene: Scene) -> None:
    lost = (LOST, scene.topic, 0, IDS.index(LOST), payload_sha256(None, b"{}"))
    with PayloadReader(scene.settings()) as payloads:
        found = payloads.read(*lost)
    assert found is not None
    assert found[:2] == (None, b"{}")
    _make_anew(scene)
    with PayloadReader(scene.settings()) as payloads:
        assert payloads.read(*lost) is None


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
    page = Places(scene.output, DATE).page.read_text()
    assert "they may have run" in page
    assert "So the journal has lost rows" in page
