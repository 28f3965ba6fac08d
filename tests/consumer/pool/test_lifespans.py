"""Objects that the runs of a child share: entered before it is ready, left when it ends idle."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from consumer.pool import ChildFailed, ChildReady, ChildRetired, EffectAsked, Finished
from consumer.pool.lifespans import LEAVE_LIMIT_S
from feedback.status import State
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import Driven, job
from tests.documents import code_shown_in, examples
from tests.kit.webhook import open_hook

pytestmark = pytest.mark.waits

ENTERED = ["engine entered", "session entered after the engine: True"]
LEFT = ["session left, same task: True", "engine left, same thread: True"]
NOOP = "@handler(topic='noop')\ndef noop(request): ...\n"
IMPORTS = "import asyncio, os, signal, time\nfrom onceward import handler, lifespan\n"
SOON = "from consumer.pool import lifespans\nlifespans.LEAVE_LIMIT_S = 0.1\n"


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Return the notes of `lifespan_handlers` so far."""
    path = tmp_path / "notes"
    path.touch()
    monkeypatch.setenv("LIFESPAN_NOTES", str(path))
    return lambda: path.read_text().splitlines()


@pytest.fixture
def make_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_pool: MakePool
) -> Callable[..., Driven]:
    """Return a factory of pools for the text of a module of handlers."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(text: str, **changes: object) -> Driven:
        name = f"written_{len(list(tmp_path.iterdir()))}"
        (tmp_path / f"{name}.py").write_text(IMPORTS + text + NOOP)
        return make_pool(handlers=(name,), **changes)

    return make


def _pool(make_pool: MakePool, **changes: object) -> Driven:
    return make_pool(handlers=("tests.consumer.pool.lifespan_handlers",), **changes)


def _logged(capfd: pytest.CaptureFixture[str], event: str) -> list[dict[str, object]]:
    lines = [json.loads(one) for one in capfd.readouterr().err.splitlines()]
    return [one for one in lines if one["event"] == event]


def test_handlers_find_what_was_entered_and_a_stop_leaves_it_in_reverse(
    make_pool: MakePool, notes: Callable[[], list[str]]
) -> None:
    driven = _pool(make_pool)
    assert notes() == ENTERED
    outcomes = driven.run([job("plain")]) | driven.run([job("on-loop", request_id="r2")])
    assert json.loads(outcomes["r1"].result or "") == {"pid": driven.pids(1)[0]}
    assert outcomes["r2"].result == "true"
    driven.pool.stop(5.0)
    assert notes() == ENTERED + LEFT


def test_a_child_that_retires_leaves_its_own(
    make_pool: MakePool, notes: Callable[[], list[str]]
) -> None:
    driven = _pool(make_pool, max_requests_per_child=1)
    driven.run([job("plain")])
    driven.until(lambda: driven.told(ChildRetired))
    assert [one for one in notes() if "left" in one] == LEFT


def test_a_child_that_is_killed_leaves_nothing(
    make_pool: MakePool, notes: Callable[[], list[str]]
) -> None:
    driven = _pool(make_pool)
    os.kill(driven.pids(1)[0], signal.SIGKILL)
    driven.death()
    driven.pids(2)
    assert notes() == ENTERED + ENTERED


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_an_error_before_the_yield_is_a_failed_start_and_earlier_ones_are_left(
    make_written: Callable[..., Driven], tmp_path: Path, kind: str
) -> None:
    text = (
        f"@lifespan\ndef first():\n yield\n open({str(tmp_path / 'left')!r}, 'x')\n"
        f"@lifespan\n{kind} bank():\n raise OSError('no\\nroute')\n yield\n"
    )
    driven = make_written(text, is_awaited=False)
    driven.until(lambda: driven.told(ChildFailed))
    reason = driven.told(ChildFailed)[0].reason
    assert re.search(r"lifespan written_\d+:bank: OSError: no route$", reason), reason
    assert driven.told(ChildReady) == []
    assert (tmp_path / "left").exists()


def test_a_stop_that_hangs_ends_the_child_and_is_logged(
    make_written: Callable[..., Driven], capfd: pytest.CaptureFixture[str]
) -> None:
    for kind, pause in (("def", "time.sleep(600)"), ("async def", "await asyncio.sleep(600)")):
        driven = make_written(SOON + f"@lifespan\n{kind} bank():\n yield\n {pause}\n")
        begun_s = time.monotonic()
        driven.pool.stop(60.0)
        assert time.monotonic() - begun_s < 30
        (line,) = _logged(capfd, "lifespan.stop_overdue")
        assert str(line["lifespan"]).endswith(":bank")


def test_a_parent_waits_longer_than_a_child_gives_its_lifespans() -> None:
    from consumer.ops.drain import CHILDREN_S
    from consumer.pool.child_process import _RETIRED_EXIT_LIMIT_S

    assert min(CHILDREN_S, _RETIRED_EXIT_LIMIT_S) > LEAVE_LIMIT_S


def test_an_error_after_the_yield_is_logged_and_the_others_are_left(
    make_written: Callable[..., Driven], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = (
        f"@lifespan\ndef first():\n yield\n open({str(tmp_path / 'left')!r}, 'x')\n"
        "@lifespan\nasync def bank():\n yield\n raise ValueError(4000 + 111)\n"
    )
    make_written(text).pool.stop(60.0)
    printed = capfd.readouterr().err
    (line,) = [json.loads(one) for one in printed.splitlines() if "stop_failed" in one]
    assert line["error"] == "ValueError"
    assert "4111" not in printed
    assert (tmp_path / "left").exists()


def test_a_task_group_that_breaks_is_logged_and_runs_go_on(
    make_written: Callable[..., Driven], capfd: pytest.CaptureFixture[str]
) -> None:
    text = (
        "ended = asyncio.Event()\n"
        "async def refresh():\n raise OSError\n"
        "@lifespan\nasync def bank():\n try:\n  async with asyncio.TaskGroup() as group:\n"
        "   group.create_task(refresh())\n   yield 'client'\n finally:\n  ended.set()\n"
        "@handler(topic='late')\nasync def late(request):\n await ended.wait()\n return 1\n"
    )
    driven = make_written(text)
    assert driven.run([job("late")])["r1"].result == "1"
    driven.pool.stop(60.0)
    assert [one["error"] for one in _logged(capfd, "lifespan.ended_early")] == ["ExceptionGroup"]


def test_a_page_shows_the_code_that_is_tested() -> None:
    assert code_shown_in("tests/consumer/lifespan_example.py") in examples().values()


def test_the_example_charges_through_one_client_and_stores_through_one_engine(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = tmp_path / "shop.db"
    with closing(sqlite3.connect(shop)) as database:
        database.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)")
    monkeypatch.setenv("SHOP_URL", f"sqlite:///{shop}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with open_hook() as bank:
        monkeypatch.setenv("BANK_URL", f"http://127.0.0.1:{bank.server_port}")
        driven = make_pool(handlers=("tests.consumer.lifespan_example",))
        driven.run([job("orders", request_id="order-7")])
        driven.pool.dispatch([job("payments", {"amount": 5})])
        driven.until(lambda: driven.told(EffectAsked))
        driven.pool.answer_effect("r1", 1, granted=True)
        driven.until(lambda: len(driven.told(Finished)) == 2)
        assert {one.state for one in driven.outcomes().values()} == {State.SUCCEEDED}
        assert bank.posted == [{"amount": 5}]
    with closing(sqlite3.connect(shop)) as database:
        assert database.execute("SELECT count(*) FROM orders").fetchone() == (1,)
