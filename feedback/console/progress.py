"""A bar that says how far a command has come, where a person looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def progress_bar(
    what: str, *, console: Console | None = None
) -> Iterator[Callable[[int, int | None], None]]:
    """Yield what takes how much is done and how much there is; it shows nothing without a terminal.

    Args:
        what: is being done.
        console: where; standard error by default.
    """
    console = Console(stderr=True) if console is None else console
    if not console.is_terminal:
        yield lambda done, total: None
        return
    with Progress(*Progress.get_default_columns(), console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
