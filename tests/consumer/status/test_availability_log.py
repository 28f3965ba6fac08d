"""A server is away while one of its users cannot work, which is logged once each way."""

import pytest

from consumer.status.availability import ServerOutage
from feedback.logs import event_of

pytestmark = pytest.mark.waits


def test_it_is_over_when_the_last_user_can_work_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    outage = ServerOutage("redis")
    outage.ends("status_writer")
    outage.begins("status_writer", "full")
    outage.begins("heartbeat", "refused")
    outage.begins("status_writer", "still full")
    outage.ends("heartbeat")
    outage.ends("heartbeat")
    seen = [outage.is_on]
    outage.ends("status_writer")
    seen.append(outage.is_on)
    assert seen == [True, False]
    assert [event_of(record) for record in caplog.records] == ["redis.away", "redis.back"]
