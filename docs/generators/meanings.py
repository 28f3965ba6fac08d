"""The sentences of `docs/meanings/`: what a name stands for, where no code can know it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "meanings"


class MeaningsDiffer(Exception):
    """A name of the code has no sentence, or a sentence has no name in the code."""


@cache
def meanings_of(file: str) -> Mapping[str, Mapping[str, str]]:
    """Return the sentences of a file, by section and name.

    Args:
        file: its name without `.toml`.
    """
    return tomllib.loads((FOLDER / f"{file}.toml").read_text(encoding="utf-8"))


def meanings(file: str, section: str, names: Iterable[str]) -> Mapping[str, str]:
    """Return the sentence of each of these names.

    Raises:
        MeaningsDiffer: one is missing, or there is one for a name that the code does not have.
    """
    wanted, written = set(names), meanings_of(file).get(section, {})
    missing, extra = sorted(wanted - set(written)), sorted(set(written) - wanted)
    if missing or extra:
        raise MeaningsDiffer(
            f"docs/meanings/{file}.toml, [{section}]: add a sentence for {missing}, remove {extra}"
        )
    return written
