"""Scenes: a group on the real servers whose requests fail until they are repaired."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.settings.settings import load
from tests.consumer.dlq.redrive.planted import LETTERS, Planted
from tests.consumer.dlq.redrive.planting import plant
from tests.consumer.dlq.redrive.scene import Scene
from tests.consumer.stage import open_stage
from tests.kit.databases import migrated
from tests.kit.settings import toml
from tests.stack import Servers

PlantLetters = Callable[..., Planted]
HANDLERS = "tests.consumer.dlq.redrive.redriven_handlers"

MakeScene = Callable[..., Scene]


@pytest.fixture
def planted(plant_letters: PlantLetters) -> Planted:
    """Return letters with their rows, on each kind of journal."""
    return plant_letters()


@pytest.fixture
def plant_letters(
    servers: Servers, journal_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PlantLetters:
    """Return a function that makes letters with their rows.

    With `from_elsewhere` their producer has written that they came from another topic.
    """
    for name in ("KAFKA__BOOTSTRAP_SERVERS", "REDIS__URL", "JOURNAL__URL"):
        monkeypatch.delenv(f"ONCEWARD_{name}", raising=False)

    def make(*, from_elsewhere: bool = False) -> Planted:
        migrated(journal_url)
        group, topic = f"group-{uuid.uuid4().hex}", f"topic-{uuid.uuid4().hex}"
        config = tmp_path / "settings.toml"
        sections = {
            "kafka": {"bootstrap_servers": servers.kafka, "group": group},
            "redis": {"url": servers.redis},
            "journal": {"url": journal_url},
        }
        config.write_text(toml(sections))
        elsewhere = (("ORIGINAL_TOPIC", dead_letter_topic(topic, group).encode()),)
        plant(
            kafka=servers.kafka,
            journal_url=journal_url,
            group=group,
            topic=topic,
            letters=LETTERS,
            headers=elsewhere if from_elsewhere else (),
        )
        return Planted(load(config), config, topic)

    return make


@contextmanager
def open_scene(servers: Servers, folder: Path, *handlers: str, **facts: Any) -> Iterator[Scene]:
    """Yield a scene on an SQLite journal unless it is told another; see `Stage` for the facts."""
    given: dict[str, Any] = {
        "journal_url": f"sqlite:///{folder}/journal.db",
        "worker": {"handlers": [HANDLERS]},
    }
    names = handlers or ("repairable",)
    with open_stage(servers=servers, folder=folder, handlers=names, **given | facts) as stage:
        yield Scene(stage, servers.kafka)


@pytest.fixture
def make_scene(servers: Servers, tmp_path: Path) -> Iterator[MakeScene]:
    """Return a factory of scenes."""
    with ExitStack() as stages:

        def make(*handlers: str, **facts: Any) -> Scene:
            folder = tmp_path / f"scene-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            return stages.enter_context(open_scene(servers, folder, *handlers, **facts))

        yield make


@pytest.fixture(scope="module")
def shared_scene(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Yield a scene whose worker runs, for tests that act on requests by their ids alone."""
    folder = tmp_path_factory.mktemp("scene")
    with open_scene(servers, folder, "repairable", "doubtful") as made:
        made.stage.start()
        yield made


@pytest.fixture
def running(shared_scene: Scene) -> Scene:
    """Return that scene; what the handlers need is away again."""
    shared_scene.break_again()
    return shared_scene
