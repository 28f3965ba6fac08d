"""The texts that users read, README and the pages of docs/, and the examples in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def documents() -> dict[str, str]:
    """Return each text by its place in the repository, README first."""
    paths = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def examples(language: str = "python") -> dict[str, str]:
    """Return each block of code in that language, by its place and number."""
    block = re.compile(rf"```{language}\n(.*?)```", re.DOTALL)
    return {
        f"{place} {number}": code
        for place, text in documents().items()
        for number, code in enumerate(block.findall(text), 1)
    }


def code_shown_in(path: str) -> str:
    """Return the part of a file that stands between its marks, as a document shows it."""
    _, code, _ = re.split(r"# example:(?:begin|end)\n", (ROOT / path).read_text(encoding="utf-8"))
    return code.strip() + "\n"
