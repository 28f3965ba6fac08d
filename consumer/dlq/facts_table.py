"""Tables and panels of a request's page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

Fact = tuple[str, RenderableType]


def facts_table(facts: Sequence[Fact], *, empty: bool = False) -> Table:
    """Return names and values in two columns.

    Args:
        empty: whether facts without text are shown as well.
    """
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", overflow="fold")
    table.add_column(overflow="fold")
    for name, value in facts:
        if empty or not isinstance(value, Text) or value.plain:
            table.add_row(Text(name), value)
    return table


def plain_table(*names: str) -> Table:
    """Return an empty table with a heading and no lines; nothing in it is cut."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def panel(title: str, body: RenderableType) -> Panel:
    """Return a panel; nothing in its title is markup."""
    return Panel(body, title=Text(title), title_align="left", border_style="dim")
