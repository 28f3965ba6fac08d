"""What a release has to have: faults of its version, its changelog and its two distributions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# What a source distribution has beside the packages: all that builds the documentation and a wheel.
OF_SOURCES = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "pyproject.toml",
)
# Where a wheel's data goes: `share/onceward` of the environment.
_DATA = r"onceward-[^/]+\.data/data/share/onceward/"
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


def of_version(version: str, changelog: str) -> Iterator[str]:
    """Yield the faults of a version and of its part of the changelog.

    >>> list(of_version("0.2", "## 0.1.0"))
    ["0.2 is no version of three numbers", 'CHANGELOG.md has no part "## 0.2"']
    """
    if not _VERSION.fullmatch(version):
        yield f"{version} is no version of three numbers"
    parts = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    mine = [part for part in parts if re.match(rf"{re.escape(version)}(?:,| |$)", part, re.M)]
    if not mine:
        yield f'CHANGELOG.md has no part "## {version}"'
    elif not mine[0].partition("\n")[2].strip():
        yield f"CHANGELOG.md says nothing of {version}"
    elif parts[0] is not mine[0]:
        yield f"CHANGELOG.md has a part above that of {version}"


def of_wheel(names: Iterable[str], tracked: Iterable[str]) -> Iterator[str]:
    """Yield the faults of a wheel.

    Args:
        names: of the files in it.
        tracked: the files of the repository.
    """
    there = {re.sub(_DATA, "config/", name) for name in names}
    wanted = {name for name in tracked if name.startswith("config/")} | {
        "onceward/troubleshooting.md",
        "onceward/py.typed",
        "onceward/servers/pom.xml",
    }
    yield from (f"the wheel has no {name}" for name in sorted(wanted - there))
    strangers = {name.partition("/")[0] for name in there} - {"onceward", "config"}
    ours = (name for name in sorted(strangers) if not re.fullmatch(r"onceward-.*\.dist-info", name))
    yield from (f"the wheel has {name} beside its one package" for name in ours)
    if any(name.startswith("onceward/checkout/") for name in there):
        yield "the wheel has code that only a checkout needs"


def of_sources(names: Iterable[str], tracked: Iterable[str]) -> Iterator[str]:
    """Yield the faults of a source distribution, whose names begin with its folder."""
    there = {name.partition("/")[2] for name in names}
    wanted = {name for name in tracked if name.startswith(("docs/", "config/"))} | {*OF_SOURCES}
    yield from (f"the source distribution has no {name}" for name in sorted(wanted - there))
