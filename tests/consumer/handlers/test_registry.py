"""What a registry finds in the modules that a worker names."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.handlers.decorator import handler
from consumer.handlers.registry import HandlerImportError, HandlerRegistry

_numbers = itertools.count()


def _topic() -> str:
    return f"registry-test-{next(_numbers)}"


def _plain(request: object) -> None: ...


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the current folder, from which modules are imported; they are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def _declares(topic: str) -> str:
    return (
        "from consumer.handlers.decorator import handler\n"
        f"@handler(topic={topic!r})\n"
        "def work(request): ...\n"
    )


def test_loading_returns_the_handlers_of_the_modules_and_of_what_they_import(
    folder: Path,
) -> None:
    topics = [_topic(), _topic()]
    (folder / "shop_charging.py").write_text(_declares(topics[0]))
    (folder / "shop_entry.py").write_text("import shop_charging\n" + _declares(topics[1]))
    loaded = HandlerRegistry.load(["shop_entry"])
    assert loaded.topics == tuple(sorted(topics))
    assert HandlerRegistry.load(["shop_entry"]).topics == loaded.topics
    assert HandlerRegistry.load(["shop_charging"]).topics == (topics[0],)


def test_loading_returns_nothing_that_other_modules_declared(folder: Path) -> None:
    topic = _topic()
    handler(topic=_topic())(_plain)
    (folder / "shop_alone.py").write_text(_declares(topic))
    assert HandlerRegistry.load(["shop_alone"]).topics == (topic,)


def test_a_module_that_is_imported_again_replaces_its_handlers(folder: Path) -> None:
    topic = _topic()
    (folder / "shop_again.py").write_text(_declares(topic))
    first = HandlerRegistry.load(["shop_again"]).for_topic(topic)
    del sys.modules["shop_again"]
    second = HandlerRegistry.load(["shop_again"]).for_topic(topic)
    assert first is not None and second is not None
    assert second.function is sys.modules["shop_again"].work
    assert first.function is not second.function


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("import not_there_at_all", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("def broken(:", "SyntaxError: "),
        ("raise ValueError('no\\nlicence')", "ValueError: no licence"),
        ("import sys; sys.exit('usage')", "SystemExit: usage"),
        ("from consumer.handlers.decorator import handler\nhandler(topic='')(print)", "1 to 249"),
        ("", "no function there has @handler"),
    ],
)
def test_a_module_that_cannot_be_used_is_named_with_its_cause_on_one_line(
    folder: Path, text: str, cause: str
) -> None:
    (folder / "shop_faulty.py").write_text(text)
    with pytest.raises(HandlerImportError) as refused:
        HandlerRegistry.load(["shop_faulty"])
    assert refused.value.module == "shop_faulty"
    assert cause in refused.value.cause
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2


def test_a_registry_of_no_modules_says_which_setting_is_empty() -> None:
    with pytest.raises(HandlerImportError, match=r"worker\.handlers"):
        HandlerRegistry.load([])
