"""Reads the built pages: no dead link, and nothing that a browser fetches elsewhere.

`python -m docs.checks build/docs/html` prints each fault and ends with 1 where there is one. Links
to other sites are left alone: they change without us, and a build needs no network.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# A browser fetches these by itself; `a href` it only follows.
FETCHED = frozenset({"src", "srcset", "poster", "data", "action"})
_STYLE = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)")


@dataclass(slots=True)
class Page:
    """The anchors of a built page, its links, and the addresses that a browser fetches for it."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.page.anchors.add(value)
            elif name == "href" and value:
                (self.page.links if tag == "a" else self.page.fetched).append(value)
            elif name in FETCHED and value:
                self.page.fetched.append(value)


def read(html: str) -> Page:
    """Return the anchors and links of a page.

    >>> read('<a href="b.html#c">x</a><p id="d"><img src="e.svg">')
    Page(anchors={'d'}, links=['b.html#c'], fetched=['e.svg'])
    """
    reader = _Reader()
    reader.feed(html)
    return reader.page


def faults(folder: Path) -> Iterator[str]:
    """Yield a line for each dead link, and for each thing that is fetched from another site."""
    folder = folder.resolve()
    pages = {path: read(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    for path, page in sorted(pages.items()):
        place = path.relative_to(folder)
        yield from (f"{place}: fetches {one}" for one in page.fetched if _is_elsewhere(one))
        for link in page.links:
            if not _is_elsewhere(link) and not _leads(path, link, pages):
                yield f"{place}: {link} leads nowhere"
    for path in sorted([*folder.rglob("*.css"), *folder.rglob("*.svg")]):
        for found in _STYLE.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(folder)}: fetches {found}"


def _is_elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def _leads(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    found = pages.get(target)
    if found is None:
        return target.is_file() and not parts.fragment
    return not parts.fragment or unquote(parts.fragment) in found.anchors


def main(folder: str) -> int:
    """Print the faults of a folder of built pages; return the exit code."""
    found = list(faults(Path(folder)))
    print("\n".join(found) or f"{folder}: no dead link, and nothing from elsewhere")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
