"""A progress bar on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def progress_bar(
    description: str, *, console: Console | None = None
) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function `(done, total)` that moves the bar; without a terminal it does nothing.

    Args:
        description: the work, shown before the bar.
        console: standard error by default.
    """
    # Here: the console of a browser imports commands, and draws none of their bars.
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True) if console is None else console
    if not console.is_terminal:
        yield lambda done, total: None
        return
    with Progress(*Progress.get_default_columns(), console=console, transient=True) as progress:
        task = progress.add_task(description, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
