"""Settings of programs under test: files of them, and an environment that holds none."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Says on which library for Kafka the programs under test run; a run of any tests may choose it.
KAFKA_CLIENT = "ONCEWARD_KAFKA__CLIENT"

Sections = Mapping[str, Mapping[str, Any]]


def environment(**settings: str) -> dict[str, str]:
    """Return the environment without the settings and the width that it names, with these settings.

    The library for Kafka stays as it is chosen.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ONCEWARD_") or name == KAFKA_CLIENT
    }
    # pytest's processes beside each other have one, to which pages would be cut.
    kept.pop("COLUMNS", None)
    return kept | settings


def merged(*all_sections: Sections) -> dict[str, dict[str, Any]]:
    """Return sections of settings laid over each other, the last on top.

    >>> merged({"kafka": {"group": "a"}}, {"kafka": {"group": "b"}, "worker": {"processes": 2}})
    {'kafka': {'group': 'b'}, 'worker': {'processes': 2}}
    """
    result: dict[str, dict[str, Any]] = {}
    for sections in all_sections:
        for name, section in sections.items():
            result.setdefault(name, {}).update(section)
    return result


def write_settings(folder: Path, *all_sections: Sections) -> Path:
    """Write sections, laid over each other, into a new settings file; return its path."""
    path = folder / f"settings-{uuid.uuid4().hex}.toml"
    path.write_text(toml(merged(*all_sections)))
    return path


def toml(sections: Sections) -> str:
    """Return sections of plain values as TOML."""
    lines: list[str] = []
    for name, section in sections.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml_value(value)}" for key, value in section.items()]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_toml_value(one) for one in value) + "]"
    # JSON's text, numbers and booleans are TOML's as well.
    return json.dumps(value)
