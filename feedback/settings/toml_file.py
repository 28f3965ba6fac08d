"""The settings file, read within bounds: no file holds a process up, or costs it its memory."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from feedback.errors import SettingsError

MAX_BYTES = 2**20
# Ours have three names: [journal.engine] and a name in it. Python's reader takes the square of it.
MAX_NAMES = 50
# In quotes it is looked at as far as 200 characters: without an end the look would take the square.
_NAME = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.){0,200}+"|'[^'\n]{0,200}+')"""
_DEEP = re.compile(rf"(?<![A-Za-z0-9_-]){_NAME}(?:[ \t]*+\.[ \t]*+{_NAME}){{{MAX_NAMES}}}")


def sections_of(config: Path | str) -> dict[str, Any]:
    """Return the sections of a TOML file.

    Raises:
        SettingsError: it cannot be read, or is none, or is none that a person would write.
    """
    try:
        with Path(config).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise SettingsError(f"settings file {config} is larger than 1 MiB: name another file")
        text = raw.decode()
        if _DEEP.search(text):
            raise SettingsError(
                f"settings file {config} has more than {MAX_NAMES} names with dots between them: "
                "a setting is [section] and its name"
            )
        # As a file in text mode has them: a lone carriage return ends a line too.
        return tomllib.loads(text.replace("\r\n", "\n").replace("\r", "\n"))
    except OSError as error:
        raise SettingsError(f"settings file {config}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also a number without end, or a list in lists
        raise SettingsError(f"settings file {config} is not TOML: {error}") from error
