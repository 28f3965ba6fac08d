"""What is missing in a release is named."""

from __future__ import annotations

import pytest

from feedback import __version__
from tests.documents import ROOT
from tests.release.contents import OF_SOURCES, of_sources, of_version, of_wheel

TRACKED = ["config/onceward.toml", "config/systemd/onceward-worker.service", "docs/index.md"]
DATA = "onceward-0.1.0.data/data/share/onceward"
WHEEL = [
    f"{DATA}/onceward.toml",
    f"{DATA}/systemd/onceward-worker.service",
    "onceward-0.1.0.dist-info/METADATA",
    "onceward/py.typed",
    "onceward/servers/pom.xml",
    "onceward/troubleshooting.md",
]


def test_this_version_is_in_the_changelog() -> None:
    assert list(of_version(__version__, (ROOT / "CHANGELOG.md").read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("changelog", "fault"),
    [
        ("# Changelog\n\n## 0.2.0\n\n- New.\n", None),
        ("# Changelog\n\n## 0.2.0, unreleased\n\n- New.\n\n## 0.1.0\n\n- Old.\n", None),
        ("# Changelog\n\n## 0.2.01\n\n- New.\n", 'CHANGELOG.md has no part "## 0.2.0"'),
        ("# Changelog\n\n## 0.2.0\n\n## 0.1.0\n\n- Old.\n", "CHANGELOG.md says nothing of 0.2.0"),
        ("## 0.3.0\n\n- a\n\n## 0.2.0\n\n- b\n", "CHANGELOG.md has a part above that of 0.2.0"),
    ],
)
def test_a_changelog_without_the_version_is_named(changelog: str, fault: str | None) -> None:
    assert [*of_version("0.2.0", changelog)] == ([] if fault is None else [fault])


def test_what_a_wheel_lacks_and_what_it_has_too_much_is_named() -> None:
    assert list(of_wheel(WHEEL, TRACKED)) == []
    wrong = [*WHEEL[1:-1], "feedback/errors.py", "onceward/checkout/backend.py"]
    assert list(of_wheel(wrong, TRACKED)) == [
        "the wheel has no config/onceward.toml",
        "the wheel has no onceward/troubleshooting.md",
        "the wheel has feedback beside its one package",
        "the wheel has code that only a checkout needs",
    ]


def test_what_a_source_distribution_lacks_is_named() -> None:
    names = [f"onceward-0.1.0/{name}" for name in (*TRACKED, *OF_SOURCES)]
    assert list(of_sources(names, TRACKED)) == []
    assert list(of_sources(names[1:], TRACKED)) == [
        "the source distribution has no config/onceward.toml"
    ]
