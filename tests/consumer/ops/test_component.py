"""The list of components: started in order, stopped in reverse, whatever one of them does."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from consumer.ops.build import Build
from consumer.ops.component import Component, started
from consumer.ops.service import components_of
from feedback.settings.settings import load
from tests.consumer.conftest import MakeStage


class Notes:
    """What components do, in their order; one may fail."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.fails = ""

    def component(self, name: str, stop_s: float = 1.0) -> Component:
        """Return a component that notes its start and its stop."""
        return Component(
            name, partial(self._say, f"start {name}"), stop=partial(self._stop, name), stop_s=stop_s
        )

    def _say(self, text: str) -> None:
        self.said.append(text)
        if text == self.fails:
            raise RuntimeError(text)

    def _stop(self, name: str, timeout_s: float) -> None:
        self._say(f"stop {name} {timeout_s}")


def test_they_start_in_order_and_stop_in_reverse_each_with_its_own_time() -> None:
    notes = Notes()
    ends = started([notes.component("a", 1.5), notes.component("b", 2.5)])
    assert notes.said == ["start a", "start b"]
    ends.close()
    assert notes.said[2:] == ["stop b 2.5", "stop a 1.5"]


def test_where_one_cannot_start_those_before_it_are_stopped() -> None:
    notes = Notes()
    notes.fails = "start b"
    with pytest.raises(RuntimeError, match="start b"):
        started(notes.component(name) for name in "abc")
    assert notes.said == ["start a", "start b", "stop a 1.0"]


def test_where_one_fails_to_stop_the_others_are_stopped_all_the_same() -> None:
    notes = Notes()
    notes.fails = "stop b 1.0"
    ends = started([notes.component(name) for name in "abc"])
    with pytest.raises(RuntimeError, match="stop b"):
        ends.close()
    assert notes.said[3:] == ["stop c 1.0", "stop b 1.0", "stop a 1.0"]


# Every feature that has threads is on. Topics of their own: what is declared stays so.
HANDLERS = """
from consumer import Fixed, handler

@handler(topic="component-work", effect="marked", retry_on=(OSError,), retries=Fixed("1s", tries=2),
         outcome_topic="component-outcomes")
def work(request): ...

@handler(topic="component-waits", effect="marked", delivery="at_least_once",
         in_doubt="retry_same_key")
def wait(request): ...

@handler(topic="component-batches", effect="marked", delivery="batch")
def batch(request): ...

@handler(topic="component-keys", effect="marked", order="key", collapse=lambda request: True)
def collapse(request): ...
"""


PLAIN = """
from consumer import handler

@handler(topic="component-plain", effect="marked")
def work(request): ...
"""

MakeNames = Callable[..., list[str]]


@pytest.fixture
def make_names(
    make_stage: MakeStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeNames]:
    """Return a factory of the names of a worker's components, in the order of their start."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made: list[Component] = []

    def make(handlers: str, worker: Mapping[str, object], **sections: Any) -> list[str]:
        module = f"component_handlers_{zlib.crc32(handlers.encode())}"
        (tmp_path / f"{module}.py").write_text(handlers)
        config = make_stage().config(worker={"handlers": [module], **worker}, **sections)
        made.extend(components_of(Build(load(config))))
        return [one.name for one in made]

    yield make
    for one in made:
        if one.name in ("children", "journal", "redis"):
            one.stop(0.0)


# Whom each needs when it starts, and so to its end; the reasons stand in `service`.
NEEDS = {
    "lease": {"health", "redis", "journal"},
    "statuses": {"redis"},
    "children": {"lease"},
    "alerts": {"redis"},
    "pauses": {"lease", "alerts"},
    "waits": {"lease", "pauses", "children", "redis"},
    "dead_letters": {"alerts", "waits", "children"},
    "outcomes": {"waits", "children"},
    "retries": {"lease", "pauses", "children"},
    "status_restore": {"redis"},
    "rest": {"journal", "statuses", "waits", "lease"},
    "sweeper": {"rest", "retries", "lease", "statuses"},
    "intake": {"lease", "pauses", "children", "sweeper", "statuses", "waits"},
}


def test_each_starts_behind_those_that_it_needs_and_stops_before_them(
    make_names: MakeNames,
) -> None:
    names = make_names(HANDLERS, {}, alerts={"webhook_url": "http://127.0.0.1:9/"})
    assert set(names) - {"health", "topics", "redis", "journal"} == NEEDS.keys()
    # The readers of batches, of keys that collapse, and of the rest.
    assert names.count("intake") == 3
    for name, needed in NEEDS.items():
        first = names.index(name)
        # Readers may start in any order among themselves; the batches' is a feature's.
        first = len(names) - 1 if name == "intake" else first
        assert needed <= set(names[:first]), name


def test_a_feature_that_is_off_is_not_there(make_names: MakeNames) -> None:
    names = make_names(PLAIN, {"dead_letters": "none"})
    # What a handler of before has left is still looked for, and a person may pause any topic.
    assert set(NEEDS) - set(names) == {"alerts", "dead_letters", "outcomes"}
