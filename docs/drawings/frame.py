"""The frame of each picture: its size, its ground, and colours for light and dark schemes."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_STYLE = """\
.ground{fill:#fff;stroke:#d0d7de}.text{fill:#1f2328}.soft{fill:#59636e}.line{stroke:#8c959f}
.bar{fill:#0969da}.other{fill:#8c959f}.arrow{stroke:#0969da;fill:none}.head{fill:#0969da}
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif}
.strong{font-weight:600}.small{font-size:11.5px}
@media(prefers-color-scheme:dark){.ground{fill:#0d1117;stroke:#3d444d}.text{fill:#f0f6fc}
.soft{fill:#9198a1}.line{stroke:#656c76}.bar{fill:#4493f8}.other{fill:#656c76}
.arrow{stroke:#4493f8}.head{fill:#4493f8}}"""


def framed(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    """Return a whole picture; the title is for those who cannot see it."""
    name = escape(title, quote=True)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-label="{name}">',
            f"<title>{name}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="ground" x="1" y="1" width="{width - 2}" height="{height - 2}" rx="8"/>',
            *parts,
            "</svg>\n",
        ]
    )


def words(text: str, x: float, y: float, *, style: str = "text", anchor: str = "middle") -> str:
    """Return a line of text.

    >>> words("a < b", 10, 20)
    '<text class="text" x="10" y="20" text-anchor="middle">a &lt; b</text>'
    """
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
    return f'<text class="{style}" {place}>{escape(text)}</text>'
