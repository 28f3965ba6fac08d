"""The checks before Spark starts, which takes seconds: everything that can be wrong by then.

In this order: the settings, the topics (as the offsets are frozen), the journal, and whether the
group and this user are the right ones. A day that has a whole snapshot asks neither Kafka nor the
journal.
"""

from __future__ import annotations

from dataclasses import replace

from feedback.clock import epoch_ms
from feedback.errors import KafkaUnavailable, NotAvailable, SettingsError
from feedback.kafka.reader import ReadForbidden, RecordReader
from feedback.settings.settings import KafkaSection, Settings
from spark_audit.judge.carry_over import read_carried
from spark_audit.output.location import Location
from spark_audit.output.outputs import recover
from spark_audit.output.paths import DayPaths
from spark_audit.stage.days import (
    chain_of,
    days_of,
    left_open,
    require_same_day,
    require_same_group,
    require_same_source,
    since_last_reading,
)
from spark_audit.stage.freeze import freeze
from spark_audit.stage.jdbc import VERSION, require_version
from spark_audit.stage.manifest import Manifest, TopicKind
from spark_audit.stage.snapshot import Snapshot
from spark_audit.stage.stage_records import connection_options
from spark_audit.stage.window import Window

READ_LIMIT_S = 3.0


def check_settings(settings: Settings) -> None:
    """Return when the settings name topics, and Kafka in words that Spark's client has.

    Raises:
        SettingsError: the sentence says how to correct them.
    """
    if not settings.audit.topics:
        raise SettingsError("[audit] topics names none: which topics are to be judged?")
    connection_options(settings.kafka)


def prepare_day(
    settings: Settings, window: Window, places: DayPaths[Location], *, again: bool = False
) -> Snapshot[Location] | Manifest:
    """Return the snapshot that a day has, else the limits within which it is to be read.

    The caller holds the lock of the output folder.

    Args:
        again: read the day again, also where it has a snapshot.

    Raises:
        SettingsError: as for `check_settings`, and for the journal's URL; or the folder's days are
            of another group, of other topics or servers.
        NotAvailable: Kafka or the journal is away or may not be read, the group is none, or the
            day's snapshot is damaged.
    """
    check_settings(settings)
    _recover(places)
    snapshot = Snapshot.of(places.output, window.date)
    if snapshot.is_complete and not again:
        Manifest.read(snapshot.manifest)
    days = days_of(places.output, again=window.date if again else None)
    require_same_group(places.output, days, settings.kafka.group)
    own = next((one for one in days if one.date == window.date), None)
    if own is not None:
        require_same_day(places.output, own, settings)
        is_same = (own.since_ms, own.until_ms) == (window.since_ms, window.until_ms)
        # One that was frozen before its window was over does not have all of it.
        is_there = snapshot.is_complete or snapshot.is_pruned
        if is_same and is_there and own.frozen_at_ms >= window.until_ms and not again:
            _require_not_pruned(snapshot, own)
            snapshot.require_whole(own)
            return snapshot
    before = left_open(places.output, days, window.date)
    ids, read_from = read_carried([one.carried for one in before])
    chain = chain_of(days, window.date)
    manifest = freeze(
        settings,
        window,
        now_ms=epoch_ms(),
        carried=ids,
        carried_from=read_from,
        chain=chain,
        fixed=own if chain.is_fixed(window.until_ms) else None,
    )
    if own is not None:
        # Records that were gone when the day was read first do not come back.
        unseen = dict.fromkeys([*own.unseen, *manifest.unseen])
        manifest = replace(manifest, unseen=tuple(unseen))
    journal_id = require_version(settings.journal.url)
    require_group(manifest)
    require_readable(settings.kafka, manifest)
    manifest = since_last_reading(manifest.of_journal(journal_id, VERSION), days)
    require_same_source(places.output, days, manifest)
    return manifest


def _require_not_pruned(snapshot: Snapshot[Location], day: Manifest) -> None:
    if snapshot.is_pruned:
        raise NotAvailable(
            f"the snapshot of {day.date} was pruned: `onceward-audit report --date {day.date}` "
            "says its verdict; --again reads the day again, as far as Kafka and the journal have it"
        )


def _recover(places: DayPaths[Location]) -> None:
    try:
        for folder in places.folders:
            recover(folder)
    except OSError as error:
        raise NotAvailable(f"{places.output} cannot be written: {error.strerror}") from error


def require_group(manifest: Manifest) -> None:
    """Return when the group has read of its topics, or nothing was ever sent there.

    Raises:
        NotAvailable: it has committed nothing. All of its requests would seem to be pending.
    """
    requests = [one for one in manifest.partitions if one.kind == TopicKind.REQUEST]
    sent = sorted({one.topic for one in requests if one.end > 0})
    if sent and all(one.committed is None for one in requests):
        raise NotAvailable(
            f"group {manifest.group} does not exist or has never committed an offset of "
            f"{', '.join(sent)}: is [kafka] group the workers' own? Kafka also forgets the offsets "
            "of a group that has had no worker for a week"
        )


def require_readable(settings: KafkaSection, manifest: Manifest) -> None:
    """Return when this user may read the records of each topic.

    Raises:
        NotAvailable: names the first topic that may not be read.
    """
    first = {one.topic: one for one in manifest.partitions if one.start < one.end}
    with RecordReader(settings) as reader:
        for topic, one in first.items():
            try:
                reader.read(topic, one.partition, one.start, timeout_s=READ_LIMIT_S)
            except ReadForbidden as error:
                raise NotAvailable(
                    f"topic {topic} may not be read: it needs the right Read for this user"
                ) from error
            except KafkaUnavailable:
                # The staging meets the same fault, and has more patience.
                continue
