"""Clients that are made before a fork, as by `gunicorn --preload`."""

import json
import subprocess
import sys
from collections.abc import Callable

from feedback.records.envelope import Record
from tests.producer_client.outbox.conftest import Rows

LIMIT_S = 60


def _forked(environment: dict[str, str], use: str, outbox: str = "") -> list[list[str]]:
    """Return what each child was told."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.producer_client.forking", use, outbox],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_client_that_was_only_made_works_in_each_child(
    environment: dict[str, str], records: Callable[[], list[Record]]
) -> None:
    environment["ONCEWARD_CLIENT__SEND_TIMEOUT_S"] = "10"
    assert _forked(environment, "unused") == [["fine", "fine", "fine"]] * 2
    assert len(records()) == 4


def test_a_client_that_was_used_says_so_at_once_in_each_child(environment: dict[str, str]) -> None:
    environment["ONCEWARD_CLIENT__SEND_TIMEOUT_S"] = "10"
    assert _forked(environment, "used") == [["ClientForked", "ClientForked", "fine"]] * 2


def test_a_client_with_an_outbox_that_was_only_made_falls_back_in_each_child(
    environment: dict[str, str], outbox_url: str, rows: Rows, refusing: str
) -> None:
    environment["ONCEWARD_KAFKA__BOOTSTRAP_SERVERS"] = refusing
    environment["ONCEWARD_CLIENT__SEND_TIMEOUT_S"] = "5"
    assert _forked(environment, "unused", outbox_url) == [["fine", "fine", "fine"]] * 2
    assert len(rows()) == 4
