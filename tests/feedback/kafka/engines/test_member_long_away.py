"""A broker that is away for longer than a session lasts, whatever library its members stand on."""

from __future__ import annotations

import time
import uuid
from contextlib import ExitStack

import pytest

from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import LIMIT_S, Told

pytestmark = pytest.mark.waits

SESSION_S = 15.0
# Between the second or two that it takes and a whole session, after which a broker removes members
# of which it has heard nothing.
BACK_WITHIN_S = 10.0


def test_a_group_goes_on_before_the_sessions_of_its_former_members_are_over(
    mortal: Ground, mortal_settings: KafkaSection
) -> None:
    name = f"topic-{uuid.uuid4().hex}"
    mortal.make_topic(name, 2)
    settings = mortal_settings.model_copy(update={"session_timeout_s": SESSION_S})
    found: set[bytes | None] = set()
    with ExitStack() as ends:
        members = [Told(settings, name) for _ in range(2)]
        for one in members:
            ends.callback(one.close)

        def poll() -> None:
            for one in members:
                found.update(record.value for record in one.poll())

        def are_joined() -> bool:
            poll()
            return all(len(one.member.assigned()) == 1 for one in members)

        def is_over(end_s: float) -> bool:
            poll()
            return time.monotonic() > end_s

        def have_all() -> bool:
            poll()
            return found == {b"0", b"1"}

        eventually(are_joined, timeout_s=LIMIT_S)
        with mortal.down():
            over_s = time.monotonic() + SESSION_S
            eventually(lambda: is_over(over_s), timeout_s=SESSION_S + LIMIT_S)
        for partition in range(2):
            mortal.write(name, [b"%d" % partition], partition=partition)
        eventually(have_all, timeout_s=BACK_WITHIN_S)
