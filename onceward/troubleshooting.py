"""`onceward help`: entries that messages name (docs: Troubleshooting by symptom).

A wheel has the page beside this file, so no network is needed; a checkout has it in `docs/`.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from pathlib import Path

import click

_HERE = Path(__file__)
_PLACES = (_HERE.with_suffix(".md"), _HERE.parents[1] / "docs/how-to/troubleshooting.md")
# The anchors of an entry, its title and its text, up to the next entry or part.
_ENTRY = re.compile(
    r"((?:^\([a-z0-9-]+\)=\n)+)\n### ([^\n]+)\n\n(.+?)(?=\n+(?:\(|## )|\s*\Z)", re.M | re.S
)
_LINK = re.compile(r"\[([^]]*)\]\((#?)([^)]+)\)")


@cache
def entries() -> dict[str, str]:
    """Return the text of each entry for a terminal, title first, by its name in messages."""
    (page,) = [one for one in _PLACES if one.is_file()][:1]
    return {
        name: f"{_plain(title)}\n\n{_plain(text)}"
        for anchors, title, text in _ENTRY.findall(page.read_text(encoding="utf-8"))
        for name in re.findall(r"\(([a-z0-9-]+)\)=", anchors)
    }


def _plain(text: str) -> str:
    """Return Markdown with its links as words.

    >>> _plain("See [](audit.md), or [`group`](#check-group).")
    'See docs: audit, or `group` (onceward help check-group).'
    """
    return _LINK.sub(_as_words, text)


def _as_words(link: re.Match[str]) -> str:
    words, is_entry, target = link.groups()
    place = f"onceward help {target}" if is_entry else f"docs: {Path(target).stem}"
    return f"{words} ({place})" if words else place


@click.command("help")
@click.argument("entry", required=False)
def explain(entry: str | None) -> None:
    """Explain an error, an exit code, a line of check or a symptom, without a network.

    A message names its ENTRY. Without one, all are listed.

    \b
    Examples:
      onceward help
      onceward help error-notsent
    """
    found = entries()
    if entry is None:
        for name, text in found.items():
            click.echo(f"{name:32} {text.partition(chr(10))[0]}")
    elif entry in found:
        click.echo(found[entry])
    else:
        near = difflib.get_close_matches(entry, found, n=3, cutoff=0.4)
        said = f"; do you mean {' or '.join(near)}?" if near else ""
        raise click.UsageError(f"there is no entry {entry!r}{said} `onceward help` lists all")
