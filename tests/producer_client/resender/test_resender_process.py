"""`onceward-client resend` as it is run: signals, SIGKILL, `--once`, and what it says."""

import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from feedback.clock import epoch_ms
from feedback.records.envelope import Record
from feedback.status import State
from feedback.statuses import StatusWrite
from producer_client import Client, Submission
from tests.eventually import eventually
from tests.producer_client.acting import WORKER_ID, Worker
from tests.producer_client.programs import Run
from tests.producer_client.resenders import attempts_of, process
from tests.standstill import standing_still

pytestmark = pytest.mark.waits

Records = Callable[[], list[Record]]
COUNT = 5_000


@pytest.fixture
def patient(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment of resenders that act on what is lost, and else wait."""
    return environment | {
        "ONCEWARD_CLIENT__RESEND_AFTER_S": "300",
        "ONCEWARD_CLIENT__SEND_TIMEOUT_S": "5",
    }


def _lose(client: Client, worker: Worker, count: int) -> list[str]:
    """Send requests, have them accepted by a worker that is dead, and return their ids."""
    results = client.send_many(Submission(b"%d" % n) for n in range(count))
    ids = [result.request_id for result in results]
    fields = {"worker": WORKER_ID}
    worker.store.write(
        [
            StatusWrite(one.request_id, State.ACCEPTED, 1, 0, one.payload_sha256 or "", fields)
            for one in worker.store.read_many(ids)
        ]
    )
    return ids


def test_two_share_the_work_and_end_at_a_signal_within_two_seconds(
    client: Client, worker: Worker, records: Records, patient: dict[str, str], tmp_path: Path
) -> None:
    with process(patient, tmp_path, "a") as one, process(patient, tmp_path, "b") as other:
        ids = _lose(client, worker, 2_000)
        eventually(lambda: len(one.printed() + other.printed()) >= 2_000, timeout_s=60)
        for each, number in ((one, signal.SIGTERM), (other, signal.SIGINT)):
            with standing_still() as stood:
                began_s = time.monotonic()
                each.send(number)
                assert each.wait() == 0
                took_s = time.monotonic() - began_s
            # Two seconds are promised, of a machine that has some to spare.
            assert took_s < 6 + stood.total_s
            assert [len(each.events(f"resender.{what}")) for what in ("started", "stopped")] == [
                1,
                1,
            ]
        said = one.printed() + other.printed()
    assert sorted(line["request_id"] for line in said) == sorted(ids)
    assert {(line["attempt"], line["why"]) for line in said} == {(2, "lost")}
    assert all(found == [1, 2] for found in attempts_of(records()).values())


@pytest.mark.long
@pytest.mark.timeout(300)
def test_what_a_killed_one_had_taken_is_sent_by_the_other(
    client: Client, worker: Worker, records: Records, patient: dict[str, str], tmp_path: Path
) -> None:
    ids = _lose(client, worker, COUNT)
    with process(patient, tmp_path, "killed") as killed:
        eventually(lambda: len(killed.printed()) > 100, timeout_s=60, interval_s=0.002)
        killed.kill()
        said = {line["request_id"] for line in killed.printed()}
    with process(patient, tmp_path, "other"):
        eventually(lambda: len(_attempts_beyond_the_first(records())) == COUNT, timeout_s=90)
    attempts = attempts_of(records())
    assert attempts.keys() == set(ids)
    twice = [one for one, found in attempts.items() if len(found) > 2]
    # Sent, but not yet settled, when it was killed: one group of each lane at most.
    assert len(twice) <= 2 * 128
    assert len(said & attempts.keys()) == len(said)


def _attempts_beyond_the_first(records: list[Record]) -> set[str]:
    return {one for one, found in attempts_of(records).items() if len(found) > 1}


def test_one_pass_sends_what_is_lost_or_due_and_ends(
    client: Client, worker: Worker, call: Run, records: Records
) -> None:
    ids = _lose(client, worker, 1_500)
    client.send(b"new", request_id="new")
    done = call("resend", "--once", "--json", ONCEWARD_CLIENT__SEND_TIMEOUT_S="20")
    assert done.code == 0
    assert len(done.stdout.splitlines()) == 1_500
    assert _attempts_beyond_the_first(records()) == set(ids)
    done = call("resend", "--once", "--json")
    assert (done.code, done.stdout) == (0, "")


@pytest.mark.usefixtures("left_open")
def test_one_pass_says_by_its_exit_code_that_a_server_is_away(
    client: Client, worker: Worker, call: Run, refusing: str
) -> None:
    _lose(client, worker, 3)
    done = call("resend", "--once", ONCEWARD_REDIS__URL=f"redis://{refusing}/0")
    assert done.code == 3
    assert "redis.away" in done.stderr
    short = {"ONCEWARD_CLIENT__SEND_TIMEOUT_S": "0.5"}
    done = call("resend", "--once", ONCEWARD_KAFKA__BOOTSTRAP_SERVERS=refusing, **short)
    assert done.code == 3
    assert "topic.away" in done.stderr
    members = cast("list[bytes]", worker.store.redis.zrange(worker.store.deadlines_key, 0, -1))
    worker.store.redis.zadd(worker.store.deadlines_key, dict.fromkeys(members, epoch_ms() - 1))
    assert call("resend", "--once").code == 0


def test_a_service_manager_hears_that_it_is_ready_lives_and_stops(
    patient: dict[str, str], group: str, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(f"\0{group}")
        heard.settimeout(30)
        asked = {"NOTIFY_SOCKET": f"@{group}", "WATCHDOG_USEC": "600000"}
        with process(patient | asked, tmp_path) as resender:
            assert [heard.recv(100) for _ in range(3)] == [
                b"READY=1",
                b"WATCHDOG=1",
                b"WATCHDOG=1",
            ]
            resender.send(signal.SIGTERM)
            last = b"WATCHDOG=1"
            while last == b"WATCHDOG=1":
                last = heard.recv(100)
            assert last == b"STOPPING=1"
            assert resender.wait() == 0


def test_wrong_settings_end_it_at_once(call: Run) -> None:
    assert call("resend", ONCEWARD_CLIENT__RESEND_AFTER_S="-1").code == 2
    assert "onceward-client resend --once --json" in call("resend", "--help").stdout
