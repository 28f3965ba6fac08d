"""The end of the demo: the table, the verdict in words, and where to read on."""

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.demo.audit import Audited
from tests.demo.payments import Waits
from tests.demo.scene import Scene
from tests.demo.verdict import Verdict

GOOD, BAD, DOUBT = "green", "bold red", "yellow"


def write_json(verdict: Verdict, path: Path) -> None:
    """Write the numbers of the verdict (docs: Files of figures)."""
    path.write_text(json.dumps(verdict.as_json(), indent=2) + "\n")


def print_closing(
    console: Console,
    verdict: Verdict,
    waits: Waits,
    *,
    scene: Scene,
    path: Path,
    audited: Audited | None,
) -> None:
    """Print the account of the run."""
    console.print()
    console.print(table(verdict, waits))
    console.print()
    console.print(Text(verdict.in_words(), style=f"bold {GOOD}" if verdict.kept else BAD))
    console.print()
    if audited is not None:
        style = BAD if audited.report is None else ""
        console.print(Text(f"The audit: {audited.line}", style=style))
        console.print()
    if audited is not None and audited.report is not None:
        page = f"page     {_shown(audited.report)}/report.html"
        console.print(Text(page, style="grey50"), soft_wrap=True)
    console.print(Text(f"numbers  {_shown(path)}", style="grey50"), soft_wrap=True)
    logs = f"logs     {_shown(scene.folder)}/*.log, settings {scene.settings_file.name}"
    console.print(Text(logs, style="grey50"), soft_wrap=True)


def table(verdict: Verdict, waits: Waits) -> Table:
    """Return the account as a table: what, how many, and what that means."""
    rows = [
        ("sent", verdict.sent, "", "payments that Kafka has"),
        ("succeeded", verdict.succeeded, GOOD, "told so, and charged"),
        ("failed", verdict.failed, _bad_if(verdict.failed), "told that nothing was charged"),
        ("in doubt", verdict.in_doubt, DOUBT if verdict.in_doubt else "", _doubt(verdict)),
        ("resent", verdict.resent, "", "sent again by waiting clients, same id"),
        ("charged twice", *_zero(len(verdict.charged_twice)), "by the bank's own account"),
        ("never told", *_zero(len(verdict.never_told)), "clients without a final status"),
        ("told wrongly", *_zero(len(verdict.told_wrongly)), "told otherwise than charged"),
    ]
    if verdict.not_sent:
        rows.insert(1, ("not sent", verdict.not_sent, DOUBT, "Kafka or Redis refused them"))
    shown = Table(title="The account", title_justify="left", title_style="bold")
    shown.add_column("")
    shown.add_column("payments", justify="right")
    shown.add_column("", style="grey62")
    for what, count, style, meaning in rows:
        shown.add_row(what, Text(f"{count:,}", style=style), meaning)
    shown.add_section()
    shown.add_row("seconds", f"{verdict.seconds:.1f}", "first send to last client told")
    told = f"half within {_span(waits.median_s)}, the last after {_span(waits.longest_s)}"
    shown.add_row("told", "", told)
    return shown


def _zero(count: int) -> tuple[int, str]:
    return count, BAD if count else f"bold {GOOD}"


def _bad_if(count: int) -> str:
    return BAD if count else ""


def _doubt(verdict: Verdict) -> str:
    if not verdict.in_doubt:
        return "nobody knows; a person decides"
    charged, spared = len(verdict.doubt_charged), len(verdict.doubt_not_charged)
    return f"a person decides; charged {charged}, not charged {spared}"


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
