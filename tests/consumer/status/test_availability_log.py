"""A server is away while one of its users cannot work, which is logged once each way."""

import pytest

from consumer.status.availability import ServerOutage
from feedback.errors import NotAvailable, RedisUnavailable, SecurityFault, SecurityKind
from feedback.logs import event_of, fields_of

pytestmark = pytest.mark.waits


def test_it_is_over_when_the_last_user_can_work_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    outage = ServerOutage("redis")
    outage.ends("status_writer")
    outage.begins("status_writer", RedisUnavailable("full"))
    outage.begins("heartbeat", RedisUnavailable("refused"))
    outage.begins("status_writer", RedisUnavailable("still full"))
    outage.ends("heartbeat")
    outage.ends("heartbeat")
    seen = [outage.is_on]
    outage.ends("status_writer")
    seen.append(outage.is_on)
    assert seen == [True, False]
    assert [event_of(record) for record in caplog.records] == ["redis.away", "redis.back"]


def test_a_fault_of_security_has_an_event_of_its_own_also_after_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    outage = ServerOutage("redis")
    password, away = _refused(SecurityKind.PASSWORD), RedisUnavailable("closed")
    for error in (away, password, password, away, password, _refused(SecurityKind.EXPIRED)):
        outage.begins("heartbeat", error)
    outage.ends("heartbeat")
    said = [(event_of(one), fields_of(one).get("fault")) for one in caplog.records]
    assert said == [
        ("redis.away", None),
        ("access.refused", "wrong_password"),
        ("access.refused", "expired_certificate"),
        ("redis.back", None),
    ]
    assert fields_of(caplog.records[1])["server"] == "redis"


def _refused(kind: SecurityKind) -> NotAvailable:
    return RedisUnavailable("no").because(SecurityFault(kind, "redis", "no"))
