"""A page as a browser reads it: elements within each other, and nothing left open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

# Elements that stand alone in HTML.
VOID = ("meta", "br", "input")


@dataclass
class Element:
    """An element; what is written in it stands between its children."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    inside: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All that is written in it."""
        return "".join(one if isinstance(one, str) else one.text for one in self.inside)

    @property
    def words(self) -> str:
        """The same, elements and words one space apart."""
        return " ".join(" ".join(self._pieces()).split())

    def _pieces(self) -> Iterator[str]:
        for one in self.inside:
            yield one if isinstance(one, str) else one.words

    def all(self, tag: str = "", css: str = "", **attributes: str) -> Iterator[Element]:
        """Yield the elements within it in their order.

        Args:
            css: a class that they have.
            attributes: and their values.
        """
        for one in self.inside:
            if isinstance(one, str):
                continue
            has_class = not css or css in one.attributes.get("class", "").split()
            has_values = attributes.items() <= one.attributes.items()
            if tag in ("", one.tag) and has_class and has_values:
                yield one
            yield from one.all(tag, css, **attributes)

    def one(self, tag: str = "", css: str = "", **attributes: str) -> Element:
        """Return the only such element."""
        (found,) = self.all(tag, css, **attributes)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element."""
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        made = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].inside.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_endtag(self, tag: str) -> None:
        """Note that it is closed."""
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        """Note what is written."""
        self._open[-1].inside.append(data)


def read(page: str) -> Element:
    """Return what a page holds."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader._open == [reader.root]
    return reader.root
