"""The days that the audit has judged, from its summaries under `[audit] output`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from feedback.errors import NotAvailable
from feedback.settings.sections import AuditSection

DAYS = 35
VERDICTS = ("good", "incomplete", "bad")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DAY = "date="
# Where an audit of a day anew was killed between two renames, the day is here until the next audit
# puts it right, see `spark_audit.output.local_outputs`.
_OLD = ".old-"


@dataclass(frozen=True, slots=True)
class AuditDay:
    """A day; without an audit its verdict is `none`.

    Attributes:
        findings: the counts that are not zero, by name.
        unseen: a sentence about each lack of evidence.
    """

    date: str
    verdict: str
    requests: int | None = None
    findings: dict[str, int] | None = None
    unseen: tuple[str, ...] = ()
    has_page: bool = False


def audit_days(section: AuditSection, *, today: date | None = None) -> list[AuditDay]:
    """Return the last `DAYS` days, the latest first.

    Where none of them was judged, the latest earlier day that was follows them: it is bad until a
    later one is good, and however long nobody runs an audit.

    Raises:
        NotAvailable: its output is no folder of this host, cannot be read, or has no day that was
            judged. Where nothing says that there are audits, there is no folder and no day.
    """
    output = section.output
    reports = _reports(output)
    is_made = bool(section.topics) or "output" in section.model_fields_set
    last = today or datetime.now(UTC).date()
    dates = [str(last - timedelta(days=back)) for back in range(DAYS)]
    try:
        if is_made and not reports.parent.is_dir():
            where = reports.parent.absolute()
            raise NotAvailable(f"[audit] output {where} is no folder: no audit was made here")
        days = [_day(reports, one) for one in dates]
        if last_judged(days) is None:
            days += _judged_before(reports, dates[-1])
        if is_made and last_judged(days) is None:
            raise NotAvailable(f"[audit] output {reports.parent.absolute()}: no day was judged yet")
        return days
    except OSError as error:
        raise NotAvailable(f"[audit] output {output}: {error.strerror or error}") from error


def last_judged(days: Iterable[AuditDay]) -> AuditDay | None:
    """Return the latest day that was judged."""
    return next((one for one in days if one.verdict != "none"), None)


def report_file(output: str, day: str) -> Path | None:
    """Return the page of a day's report; None where there is none, or `day` is no date."""
    if not _DATE.fullmatch(day):
        return None
    page = _folder(_reports(output), day) / "report.html"
    return page if page.is_file() else None


def _reports(output: str) -> Path:
    if "://" in output:
        raise NotAvailable(f"[audit] output {output} is no folder of this host: look there")
    return Path(output) / "reports"


def _judged_before(reports: Path, day: str) -> Iterator[AuditDay]:
    """Yield the latest day before this one that was judged, if any was."""
    if not reports.is_dir():
        return
    # A glob would pass over a folder that this user may not list.
    folders = (one for one in reports.iterdir() if one.is_dir())
    names = (one.name.removeprefix(_OLD) for one in folders)
    days = (one.removeprefix(_DAY) for one in names if one.startswith(_DAY))
    # The names of dates are in their order.
    earlier = sorted((one for one in days if _is_date(one) and one < day), reverse=True)
    found = last_judged(_day(reports, one) for one in earlier)
    if found is not None:
        yield found


def _is_date(name: str) -> bool:
    try:
        return bool(_DATE.fullmatch(name) and date.fromisoformat(name))
    except ValueError:
        return False


def _folder(reports: Path, day: str) -> Path:
    folder, old = reports / f"{_DAY}{day}", reports / f"{_OLD}{_DAY}{day}"
    return old if old.is_dir() and not folder.is_dir() else folder


def _day(reports: Path, day: str) -> AuditDay:
    folder = _folder(reports, day)
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        return _judged(day, summary, has_page=(folder / "report.html").is_file())
    except FileNotFoundError:
        return AuditDay(day, "none")
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        # Of a number that is Infinity, and of arrays in arrays.
        unseen = ("its summary cannot be read",)
        return AuditDay(day, "incomplete", unseen=unseen)


def _judged(day: str, summary: Any, *, has_page: bool) -> AuditDay:
    verdict, counts, unseen = str(summary["verdict"]), summary["counts"], summary["unseen"]
    if not (isinstance(counts["findings"], dict) and isinstance(unseen, list)):
        raise TypeError
    return AuditDay(
        day,
        verdict if verdict in VERDICTS else "incomplete",
        int(counts["requests"]),
        dict(_named(counts["findings"])),
        tuple(map(str, unseen)),
        has_page,
    )


def _named(findings: dict[str, int]) -> Iterator[tuple[str, int]]:
    for name, count in findings.items():
        if count:
            yield str(name).replace("_", " "), int(count)
