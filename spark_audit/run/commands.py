"""`onceward-audit`: run, report, package, prune.

Kubernetes and systemd stop a program by it, and Python would end at once: on a file system of
Hadoop's the lock would stay behind.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

import click

from feedback import __version__, logs
from feedback.clock import epoch_ms
from feedback.console.commands import Group, config_option, json_option, settings_of
from feedback.console.plurals import counted
from feedback.errors import NotAvailable
from spark_audit.judge.day_verdict import parse_fail_on
from spark_audit.output.location import Location
from spark_audit.output.outputs import settled
from spark_audit.output.paths import DayPaths
from spark_audit.output.run_lock import alone
from spark_audit.run.opening import output_folder
from spark_audit.run.package import write_package
from spark_audit.say.summary import Summary, summary_line
from spark_audit.stage.window import Window, window_of


@contextmanager
def stopping_in_order() -> Iterator[None]:
    """Handle SIGTERM as SIGINT, which Spark takes over once it has started."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


_unlock = click.option(
    "--unlock",
    metavar="ID",
    default="",
    help="Take over the lock of this audit, which was killed (on HDFS, or in a bucket).",
)

# A report reads files alone.
OF_THE_FOLDER = ("audit.output",)


@click.group(cls=Group)
@click.version_option(__version__)
def cli() -> None:
    """Proves from the topics and the journal how each request ended."""


@cli.command()
@config_option
@json_option
@click.option("--date", help="The day to judge in UTC, YYYY-MM-DD; yesterday by default.")
@click.option(
    "--since", help="Begin there instead, in a folder's first run: ISO 8601 with its zone."
)
@click.option("--until", help="Judge up to this time instead.")
@click.option("--again", is_flag=True, help="Read the day again from Kafka and the journal.")
@click.option("--fail-on", help="Findings that end it with 1, as in lost>0,ran_twice>0.")
@_unlock
def run(
    config: str | None,
    as_json: bool,
    date: str | None,
    since: str | None,
    until: str | None,
    again: bool,
    fail_on: str | None,
    unlock: str,
) -> int:
    """Read a day's requests, judge them, and write the report.

    It goes on where the last run ended, and judges the records since: also records of other times,
    but not those of a later day. A day that was read before is judged again from its snapshot.

    \b
    Example:
      onceward-audit run --config payments.toml --date 2026-11-20
    """
    from spark_audit.run.audit import run_audit

    settings = settings_of(config)
    logs.configure()
    conditions = parse_fail_on(settings.audit.fail_on if fail_on is None else fail_on)
    window = _window(date, since, until)
    progress = sys.stderr.isatty()
    with stopping_in_order():
        outcome = run_audit(
            settings, window, conditions, again=again, unlock=unlock, progress=progress
        )
    for one in outcome.before:
        click.echo(f"judged now, since it was only read: {summary_line(one.summary)}", err=True)
    if as_json:
        click.echo(json.dumps(outcome.summary))
    else:
        click.echo(summary_line(outcome.summary))
        click.echo(f"the page: {outcome.page}")
    return outcome.exit_code


@cli.command()
@config_option
@json_option
@click.option("--date", help="The day in UTC, YYYY-MM-DD; yesterday by default.")
def report(config: str | None, as_json: bool, date: str | None) -> int:
    """Print an earlier run's findings again, and end with its exit code.

    \b
    Example:
      onceward-audit report --config payments.toml --date 2026-11-20

    It ends with 3 where a later run has read the day again and died before its verdict, and where
    the day was judged before it was over, and is over now.
    """
    with output_folder(settings_of(config, needs=OF_THE_FOLDER).audit) as output:
        day = _window(date, None, None).date
        places = DayPaths(output, day)
        page, summary = places.page, _summary(places.summary)
        _require_latest(summary, output, day)
        _require_whole(summary, day)
    if as_json:
        click.echo(json.dumps(summary))
    else:
        click.echo(summary_line(summary))
        click.echo(f"the page: {page}")
    return int(summary["exit_code"])


@cli.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="onceward-audit.py",
    show_default=True,
    help="The file to write; its name ends in .py.",
)
def package(output: Path) -> None:
    """Write the audit as one file for spark-submit.

    The driver's machine needs Onceward's dependencies installed; executors need none of it.

    \b
    Example:
      onceward-audit package
      spark-submit --master spark://10.0.0.1:7077 --jars 'jars/*.jar' \\
        onceward-audit.py run --config payments.toml --date 2026-11-20
    """
    write_package(output)
    click.echo(f"the audit for spark-submit: {output}")


@cli.command()
@config_option
@json_option
@click.option(
    "--keep-days",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Days before today (UTC) that stay whole.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@_unlock
def prune(config: str | None, as_json: bool, keep_days: int, dry_run: bool, unlock: str) -> None:
    """Remove the snapshots and lists of old days; their verdicts, pages and figures stay.

    A day that was pruned still counts for the chain of offsets and for trends. The newest day, and
    one that was read and not judged, are never pruned. It refuses while an audit runs.

    \b
    Example:
      onceward-audit prune --config payments.toml --keep-days 30
    """
    from spark_audit.run.day_pruning import prune as prune_days

    before = _today() - timedelta(days=keep_days)
    with (
        stopping_in_order(),
        output_folder(settings_of(config, needs=OF_THE_FOLDER).audit) as output,
        alone(output, unlock=unlock),
    ):
        found = prune_days(output, before=f"{before:%Y-%m-%d}", is_dry=dry_run)
    size = sum(one.bytes for one in found)
    if as_json:
        days = [{"date": one.date, "bytes": one.bytes} for one in found]
        click.echo(json.dumps({"days": days, "bytes": size, "dry_run": dry_run}))
    else:
        done = "would remove" if dry_run else "removed"
        click.echo(f"{done} {size} bytes of {counted(len(found), 'day')}")


def _today() -> datetime:
    return datetime.fromtimestamp(epoch_ms() / 1000, UTC)


def _window(date: str | None, since: str | None, until: str | None) -> Window:
    yesterday = _today() - timedelta(days=1)
    return window_of(date or f"{yesterday:%Y-%m-%d}", since, until, now_ms=epoch_ms())


def _summary(path: Location) -> Summary:
    try:
        found: Summary = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotAvailable(f"{path}: {error.strerror}; was this day judged?") from error
    except ValueError as error:
        raise NotAvailable(f"{path} is no summary: judge the day again") from error
    return found


def _require_whole(summary: Summary, date: str) -> None:
    """Return when a verdict is of the whole day, or the day is not over yet."""
    judged, until_ms = summary.get("frozen_at_ms"), summary.get("until_ms")
    if judged is not None and until_ms is not None and judged < until_ms <= epoch_ms():
        raise NotAvailable(
            f"{date} was judged before it was over, at {summary['frozen_at']}: "
            f"onceward-audit run --date {date}"
        )


def _require_latest(summary: Summary, output: Location, date: str) -> None:
    """Return when a verdict is of the day's latest snapshot, as far as that can be read.

    The day's limits are read as plain JSON: `stage` comes with Spark, which a report does without.
    """
    judged = summary.get("frozen_at_ms")
    manifest = settled(output / "snapshot" / f"date={date}") / "manifest.json"
    try:
        read = json.loads(manifest.read_text(encoding="utf-8")).get("frozen_at_ms")
    except (OSError, ValueError, AttributeError):
        return  # no snapshot to compare with; the next run of the day names the fault
    if judged is not None and read is not None and judged != read:
        raise NotAvailable(
            f"{date} was read again and has not been judged since: onceward-audit run --date {date}"
        )
