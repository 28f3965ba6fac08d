"""The days of an output folder: their manifests, and the sources that each was read from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from feedback.errors import NotAvailable, SettingsError
from feedback.kafka.questions import asking
from feedback.logs import EventLog
from feedback.settings.settings import Settings
from spark_audit.output.location import Location
from spark_audit.output.outputs import is_whole, settled
from spark_audit.output.paths import DayPaths
from spark_audit.stage.chain import Chain
from spark_audit.stage.freeze import source_of
from spark_audit.stage.jdbc import require_version
from spark_audit.stage.manifest import Damaged, Manifest, Outdated, SnapshotSource
from spark_audit.stage.snapshot import Snapshot

log = EventLog("onceward.audit")


def days_of(output: Location, *, again: str | None = None) -> tuple[Manifest, ...]:
    """Return the manifests of all days that were read, in the order in which they were made.

    Args:
        again: YYYY-MM-DD, a day that is about to be read again: its manifest may be damaged.

    Raises:
        NotAvailable: one of them is damaged, of a newer version, or cannot be read.
    """
    found = []
    for folder in sorted((output / "snapshot").glob("date=*"), key=str):
        snapshot, date = Snapshot(settled(folder)), folder.name.removeprefix("date=")
        if not snapshot.is_read:
            continue
        try:
            found.append(Manifest.read(snapshot.manifest))
        except Outdated as error:
            # After an upgrade: the chain of the days begins anew.
            log.warning("previous.not_read", reason=str(error))
        except Damaged as error:
            if date != again:
                raise NotAvailable(
                    f"{snapshot.manifest} is damaged, and later days go on where {date} ended: "
                    f"read that day again: onceward-audit run --date {date} --again"
                ) from error
            log.warning("previous.damaged", reason=str(error))
    return tuple(sorted(found, key=lambda one: one.number))


def chain_of(days: Iterable[Manifest], date: str) -> Chain:
    """Return the chain of runs before one of a day."""
    return Chain(date, tuple(one.past for one in days))


def since_last_reading(manifest: Manifest, days: Iterable[Manifest]) -> Manifest:
    """Return a new manifest with the time in which it looks for later runs of requests that earlier
    days judged: from when the journal was read last. No two runs look at the same time.

    Args:
        days: those of the folder; its own, when it is read again, keeps its time once a later run
            has gone on from there.
    """
    known = list(days)
    own = next((one for one in known if one.date == manifest.date), None)
    if own is not None and any(one.number > own.number for one in known):
        span = (own.reran_since_ms, own.reran_to_ms)
    else:
        others = (one.reran_to_ms for one in known if one.date != manifest.date)
        span = (max(others, default=0), 0)
    return replace(manifest, reran_since_ms=span[0], reran_until_ms=span[1])


def left_open(output: Location, days: Iterable[Manifest], date: str) -> list[DayPaths[Location]]:
    """Return the earlier days whose open requests a run of a day goes on with: those that no other
    run has gone on with yet.

    Usually the day before. A day that is made late comes after runs of later days, which do not
    know its open requests; the next one takes both. One that is read again, when a later run has
    gone on from there, keeps its own.

    Args:
        days: those that were read.
        date: of the run.
    """
    known = list(days)
    own = next((one for one in known if one.date == date), None)
    if own is not None and any(one.number > own.number for one in known):
        known = [one for one in known if one.number < own.number]
    others = [one for one in known if one.date != date]
    earlier = [
        one
        for one in others
        if one.date < date
        and not any(it.date > one.date and it.number > one.number for it in others)
    ]
    places = [DayPaths(output, one.date) for one in earlier]
    judged = [one for one in places if is_whole(one.report)]
    before = DayPaths(output, date).before
    is_unknown = before is not None and before.date not in {one.date for one in days}
    return [before] if before is not None and is_unknown and not judged else judged


def unjudged(output: Location, days: Iterable[Manifest], date: str) -> list[Manifest]:
    """Return the earlier days that were read, or read again, and not judged since: a run died
    between.

    No later run judges their requests. Of one of which a part is missing the judgement says so.
    """
    earlier = sorted((one for one in days if one.date < date), key=lambda one: one.date)
    return [
        one
        for one in earlier
        if not Snapshot.of(output, one.date).is_pruned and not is_judged(output, one.date)
    ]


def is_judged(output: Location, date: str) -> bool:
    """Return whether a day's report is of its latest snapshot, and not of an earlier one."""
    read_at_ms = _frozen_at_ms(Snapshot.of(output, date).manifest)
    return read_at_ms is not None and read_at_ms == _frozen_at_ms(DayPaths(output, date).summary)


def _frozen_at_ms(path: Location) -> int | None:
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["frozen_at_ms"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def require_same_group(output: Location, days: Iterable[Manifest], group: str) -> None:
    """Return when the folder's days are of this group.

    Raises:
        SettingsError: names both groups.
    """
    others = sorted({one.group for one in days} - {group})
    if others:
        raise SettingsError(
            f"the days in {output} are of group {others[0]}, and [kafka] group is {group}: give "
            "each group an [audit] output of its own"
        )


def require_same_source(output: Location, days: Iterable[Manifest], manifest: Manifest) -> None:
    """Return when the folder's days were read from the same Kafka and journal as a new one.

    Raises:
        SettingsError: names both.
    """
    if manifest.source is not None:
        _require_same_source(output, days, manifest.source)


def _require_same_source(output: Location, days: Iterable[Manifest], now: SnapshotSource) -> None:
    for day in days:
        before = day.source
        if before is None:
            continue
        _require_same(output, day.date, "Kafka cluster", before.cluster_id, now.cluster_id)
        _require_same(output, day.date, "journal", before.journal_id, now.journal_id)


def require_same_day(output: Location, day: Manifest, settings: Settings) -> None:
    """Return when a day was read from the sources that the settings name.

    Kafka and the journal are asked only where the settings call them otherwise.

    Raises:
        SettingsError: names the difference.
        NotAvailable: Kafka or the journal is away, and had to be asked.
    """
    before, now = day.source, source_of(settings)
    if before is None:
        return
    if before.topics != now.topics:
        raise SettingsError(
            f"{day.date} in {output} was read from the topics {', '.join(before.topics)}, and "
            f"[audit] topics names {', '.join(now.topics)}: judge them in an [audit] output of "
            "their own"
        )
    if before.brokers != now.brokers:
        with asking(settings.kafka) as kafka:
            now = replace(now, cluster_id=kafka.cluster_id())
    if before.journal != now.journal:
        now = replace(now, journal_id=require_version(settings.journal.url))
    _require_same_source(output, [day], now)


def _require_same(output: Location, date: str, named: str, before: str, now: str) -> None:
    if before and now and before != now:
        raise SettingsError(
            f"{date} in {output} was read from the {named} {before}, and the settings lead to "
            f"{now}: correct them, or judge it in an [audit] output of its own"
        )
