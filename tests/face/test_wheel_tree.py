"""The tree of a wheel: imports of rooms are moved below `onceward`, and nothing else changes."""

import ast
import configparser
from pathlib import Path

import pytest

from onceward.checkout.wheel_tree import NotMovable, moved
from tests.face.conftest import ROOT


def test_only_statements_of_import_differ_and_each_keeps_its_line(installed: Path) -> None:
    for file in ROOT.glob("consumer/**/*.py"):
        ours = file.read_text().split("\n")
        theirs = (installed / "onceward" / file.relative_to(ROOT)).read_text().split("\n")
        assert len(ours) == len(theirs)
        changed = {new: old for old, new in zip(ours, theirs, strict=True) if old != new}
        for new, old in changed.items():
            assert new.replace("onceward.", "", 1) == old
            assert new.split()[0] in ("from", "import")


def test_settings_of_the_build_name_what_is_installed(installed: Path) -> None:
    setup = configparser.ConfigParser()
    setup.read(installed / "setup.cfg")
    lines = setup["options.entry_points"]["console_scripts"].strip().split("\n")
    scripts = dict(line.split(" = ") for line in lines)
    assert sorted(scripts) == [
        "onceward",
        "onceward-audit",
        "onceward-client",
        "onceward-console",
        "onceward-dlq",
        "onceward-worker",
    ]
    for place in scripts.values():
        module, _, function = place.partition(":")
        file = installed.joinpath(*module.split(".")).with_suffix(".py")
        names = [one.name for one in ast.parse(file.read_text()).body if hasattr(one, "name")]
        assert function in names
    assert setup["metadata"]["version"] == "attr: onceward.feedback.__version__"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from feedback import logs", "from onceward.feedback import logs"),
        ("import consumer.pool as pool", "import onceward.consumer.pool as pool"),
        ("import feedback.kafka.logs", "import onceward.feedback.kafka.logs"),
        ("if a:\n    from consumer.x import (\n        y,\n    )", None),
        ("é = 'é'; from feedback import a", "é = 'é'; from onceward.feedback import a"),
        ("from feedbacks import a", "from feedbacks import a"),
        ('"from feedback import a"\n# from feedback import a', None),
        ("from . import consumer\nconsumer.poll()", "from . import consumer\nconsumer.poll()"),
    ],
)
def test_an_import_of_a_room_is_moved_and_nothing_else(text: str, expected: str | None) -> None:
    if expected is None:
        expected = text.replace("    from consumer.", "    from onceward.consumer.")
    assert moved(text, "a.py") == expected


@pytest.mark.parametrize(
    "text",
    [
        "import consumer.pool\nconsumer.pool.run()",
        "import feedback, consumer",
        "from \\\n  feedback import a",
    ],
)
def test_an_import_that_would_mean_something_else_is_refused(text: str) -> None:
    with pytest.raises(NotMovable, match=r"^a\.py:\d: "):
        moved(text, "a.py")
