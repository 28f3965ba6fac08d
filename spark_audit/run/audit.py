"""One audit from its freeze to its report: the steps, their order, and the files that stay.

A day that has a whole snapshot is judged from it; Kafka and the journal are not asked again. The
report appears as a whole folder at the end, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import ExitCode, RedisUnavailable
from feedback.logs import EventLog
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from spark_audit.findings import Finding
from spark_audit.judge.carry_over import CarryOver, carried, carry_over, gone, write_carried
from spark_audit.judge.day_verdict import Condition, unseen_carried, unseen_offsets
from spark_audit.judge.figures import Figures, figures_of, records_by_kind
from spark_audit.judge.judged_day import JudgedDay, judge_day
from spark_audit.judge.sample import requests_to_compare
from spark_audit.judge.status_check import Comparison, compare
from spark_audit.output.location import Location, is_hadoop, output_of
from spark_audit.output.outputs import replacing, settled, told_when_full, write_text
from spark_audit.output.paths import DayPaths
from spark_audit.output.run_lock import alone
from spark_audit.run.opening import jars_for, require_shared, session_of
from spark_audit.run.preparation import check_settings, prepare_day
from spark_audit.run.telling import VerdictTelling
from spark_audit.say.cards import CardSources
from spark_audit.say.client_view import told_of
from spark_audit.say.findings_csv import write_disagreements, write_findings_csv
from spark_audit.say.findings_parquet import (
    counted_by_topic,
    first_of_each,
    read_findings,
    to_resend,
    urgent,
    write_findings,
)
from spark_audit.say.history import History, day_line, put_in, read_history, strip_of, take_out
from spark_audit.say.page import render
from spark_audit.say.resend_lines import PayloadReader, ResendLines, write_resend
from spark_audit.say.summary import Summary, as_text, summarise
from spark_audit.spark import explained
from spark_audit.stage.days import days_of, unjudged
from spark_audit.stage.gaps import find_gaps
from spark_audit.stage.manifest import Manifest
from spark_audit.stage.snapshot import Snapshot, take
from spark_audit.stage.window import Window

log = EventLog("onceward.audit")


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of an audit, and the place of its page.

    Args:
        before: of the days that an earlier run had read and not judged.
    """

    summary: Summary
    page: Location
    before: tuple[AuditResult, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the command: that of an earlier day counts where its own is 0."""
        codes = (ExitCode(one.summary["exit_code"]) for one in (self, *self.before))
        return next((code for code in codes if code is not ExitCode.FINE), ExitCode.FINE)


def run_audit(
    settings: Settings,
    window: Window,
    conditions: Sequence[Condition],
    *,
    again: bool = False,
    unlock: str = "",
    progress: bool = False,
) -> AuditResult:
    """Judge a window and write its report.

    Args:
        conditions: the audit fails when one of them is met.
        again: read the day again, though it was read before.
        unlock: the id of an audit that was killed and holds the lock of the output folder.

    Raises:
        SettingsError: settings that Spark's Kafka client or JDBC has no word for.
        NotAvailable: something that it reads from or writes to is not there.
    """
    began_s = monotonic_s()
    check_settings(settings)
    jars = jars_for(settings.audit)
    with ExitStack() as opened:
        spark: SparkSession | None = None
        if is_hadoop(settings.audit.output):
            # It is Spark's Java that knows the way there.
            spark = opened.enter_context(session_of(settings.audit, jars, progress=progress))
        places = DayPaths(output_of(settings.audit.output, spark), window.date)
        # Here before Spark starts, which takes seconds: of two audits one fails at once.
        opened.enter_context(alone(places.output, unlock=unlock))
        with explained("the audit cannot begin"):
            source = prepare_day(settings, window, places, again=again)
        if spark is None:
            spark = opened.enter_context(session_of(settings.audit, jars, progress=progress))
        return _audit(spark, settings, window, source, conditions, again=again, began_s=began_s)


def audit_with(
    spark: SparkSession,
    settings: Settings,
    window: Window,
    conditions: Sequence[Condition],
    *,
    again: bool = False,
) -> AuditResult:
    """Judge a window in a session that is open; the caller holds the lock of the output folder."""
    began_s = monotonic_s()
    places = DayPaths(output_of(settings.audit.output, spark), window.date)
    source = prepare_day(settings, window, places, again=again)
    return _audit(spark, settings, window, source, conditions, again=again, began_s=began_s)


def _audit(
    spark: SparkSession,
    settings: Settings,
    window: Window,
    source: Snapshot[Location] | Manifest,
    conditions: Sequence[Condition],
    *,
    again: bool,
    began_s: float,
) -> AuditResult:
    places = DayPaths(output_of(settings.audit.output, spark), window.date)
    with told_when_full(places.output), explained("the audit cannot go on"):
        require_shared(spark, places.output)
        telling = VerdictTelling(
            places.output, window.date, webhook_url=settings.audit.webhook_url, began_s=began_s
        )
        telling.tell_untold()
        # Days that an earlier run had read when it died: their offsets are no other day's, and
        # their open requests are carried into this one.
        days = days_of(places.output, again=window.date if again else None)
        left = unjudged(places.output, days, window.date)
        before = [
            _audited(spark, settings, Snapshot.of(places.output, day.date), conditions, telling)
            for day in left
        ]
        if before:
            source = prepare_day(settings, window, places, again=again)
        snapshot = (
            take(spark, settings, source, places.output) if isinstance(source, Manifest) else source
        )
        outcome = _audited(spark, settings, snapshot, conditions, telling)
        telling.finish()
        return replace(outcome, before=tuple(before))


def _audited(
    spark: SparkSession,
    settings: Settings,
    snapshot: Snapshot[Location],
    conditions: Sequence[Condition],
    telling: VerdictTelling,
) -> AuditResult:
    manifest = Manifest.read(snapshot.manifest)
    snapshot.require_whole(manifest)
    places = DayPaths(output_of(settings.audit.output, spark), manifest.date)
    log.info("audit.staged", date=manifest.date, partitions=len(manifest.partitions))
    day = judge_day(spark, snapshot, manifest, places, samples=settings.audit.statuses)
    judged = day.requests
    log.info("audit.judged", date=manifest.date)
    carry = carry_over(carried(judged).collect(), manifest)
    gaps = find_gaps(day.records, manifest, compacted=manifest.compacted)
    compared = _compared(settings, judged, manifest)
    with replacing(places.findings) as folder:
        ids = [one.request_id for one in compared.disagreements] if compared else []
        write_findings(judged, folder, disagreeing=ids)
    findings = read_findings(spark, settled(places.findings), judged.schema)
    # Executors come and go: one that wrote since must have written here as well.
    require_shared(spark, places.output)
    take_out(places.output, manifest.date)
    telling.expect(manifest.date)
    with replacing(places.report) as folder:
        summary = _written(
            folder,
            settings=settings,
            manifest=manifest,
            day=day,
            findings=findings,
            gaps=gaps,
            records=records_by_kind(day.records),
            unseen=[
                *manifest.unseen,
                *manifest.hidden,
                *unseen_offsets(manifest, gaps),
                *unseen_carried(gone(judged, manifest)),
            ],
            compared=compared,
            conditions=conditions,
            carry=carry,
            history=read_history(
                places.output,
                manifest.date,
                length_ms=manifest.until_ms - manifest.since_ms,
            ),
        )
    put_in(places.output, day_line(summary))
    telling.tell(summary)
    return AuditResult(summary, places.page)


def _has_page(settings: Settings) -> Callable[[str], bool]:
    if is_hadoop(settings.audit.output):
        # There a page lies in the folder of its run: no link to it would last.
        return lambda _: False
    output = output_of(settings.audit.output)
    return lambda date: DayPaths(output, date).page.exists()


def _compared(settings: Settings, judged: DataFrame, manifest: Manifest) -> Comparison | None:
    """Return where statuses disagree; None when Redis cannot be asked."""
    store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
    try:
        return compare(
            store,
            requests_to_compare(judged, most=settings.audit.statuses),
            read_at_ms=manifest.journal_read_at_ms,
            grace_ms=manifest.grace_ms,
            # Earlier versions kept the status of a doubt no longer than the others.
            ttl_s=lambda state: min(settings.redis.ttl_s(state), settings.redis.longest_ttl_s),
            now_ms=epoch_ms(),
        )
    except RedisUnavailable as error:
        log.warning("statuses.not_compared", reason=str(error))
        return None
    finally:
        store.close()


def _written(
    folder: Location,
    *,
    settings: Settings,
    manifest: Manifest,
    day: JudgedDay,
    findings: DataFrame,
    carry: CarryOver,
    conditions: Sequence[Condition],
    unseen: Iterable[str],
    compared: Comparison | None,
    history: History,
    **known: Any,
) -> Summary:
    figures = figures_of(
        day.requests, since_ms=manifest.since_ms, until_ms=manifest.until_ms, plain=day.plain
    )
    resend = None
    # Without the statuses, or the rows, nothing is offered for sending: there is no resend.jsonl.
    if compared is not None and not figures.findings[Finding.FORGOTTEN]:
        resend = _offered(folder / "resend.jsonl", settings, manifest, findings)
    write_findings_csv(urgent(findings), folder)
    if compared is not None:
        write_disagreements(compared.disagreements, folder / "status_disagrees.csv")
    summary = summarise(
        manifest,
        figures,
        conditions=conditions,
        disagreements=compared.disagreements if compared else None,
        statuses=compared.requests if compared else 0,
        by_topic=counted_by_topic(findings),
        unseen=[*unseen, *_lacks(figures, carry, compared)],
        resend=resend,
        history=history,
        **known,
    )
    write_carried(folder / "carried.json", carry)
    write_text(folder / "summary.json", as_text(summary))
    first = first_of_each(findings)
    told = told_of(settings, first) if compared else {}
    files = [one.name for one in folder.iterdir()]
    days = strip_of(history.recent, manifest.date, has_page=_has_page(settings))
    write_text(folder / "report.html", render(summary, CardSources(first, told, files, days)))
    return summary


def _lacks(figures: Figures, carry: CarryOver, compared: Comparison | None) -> Iterator[str]:
    if compared is None:
        yield "the statuses in Redis"
    if carry.is_cut:
        yield "all requests that are still open: there are too many"
    if figures.findings[Finding.FORGOTTEN]:
        yield "rows that were pruned: audit a day before it is, and send nothing of it"


def _offered(
    path: Location, settings: Settings, manifest: Manifest, findings: DataFrame
) -> ResendLines:
    """Write the lost requests that are safe to send again.

    None is where Redis knows of one that a worker had begun: the journal has lost rows, and Redis
    may have forgotten the others.
    """
    with PayloadReader(settings) as payloads:
        begun = payloads.begun(one.request_id for one in to_resend(findings))
        found = write_resend(
            () if any(begun) or not begun else to_resend(findings),
            payloads.read,
            path,
            begun=payloads.begun,
            audit={
                "group": manifest.group,
                "journal": manifest.source.journal_id if manifest.source else "",
                "read_at": manifest.journal_read_at_ms,
            },
        )
    if not any(begun):
        return found
    return replace(found, begun=sum(begun), withheld=len(begun) - sum(begun))
