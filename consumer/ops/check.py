"""`onceward-worker check`: each server and setting asked, every answer a finding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import cast
from urllib.parse import urlsplit, urlunsplit

from redis.exceptions import RedisError

from consumer.features.dead_letter_handlers.letter_topics import expected
from consumer.features.waits.live_workers import wait_topic_faults
from consumer.handlers.checks.waits import require_no_journal
from consumer.handlers.declaration import DeliveryKind, Handler
from consumer.handlers.registry import HandlerRegistry
from consumer.journal import Journal, Leases
from consumer.journal.database_settings import connections, described, standing_faults
from consumer.ops.check_result import CheckResult
from consumer.ops.needed_topics import needed_topics
from consumer.ops.open_files import open_files, open_files_words
from consumer.ops.rights.checking import look_at_rights
from consumer.status.heartbeat import compare_journals, compare_timelines
from feedback.errors import (
    ExitCode,
    NotAvailable,
    OncewardError,
    RedisUnavailable,
    SettingsError,
)
from feedback.kafka.source import KafkaSource
from feedback.kafka.topic_facts import not_there
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.rights.needed import Role
from feedback.settings.settings import Settings


def check_all(settings: Settings) -> list[CheckResult]:
    """Look at everything a worker needs, also after the first fault; change nothing."""
    findings = [
        _finding(what, look, settings)
        for what, look in (
            ("settings", _look_at_settings),
            ("handlers", _look_at_handlers),
            ("kafka", _look_at_kafka),
            ("redis", _look_at_redis),
            ("journal", _look_at_journal),
        )
    ]
    if any(one.delivery is DeliveryKind.AT_LEAST_ONCE for one in _handlers(settings)):
        findings.append(_finding("waits", _look_at_waits, settings))
    is_there = all(finding.ok for finding in findings if finding.what in ("redis", "journal"))
    if all(finding.ok for finding in findings if finding.what == "redis"):
        findings.extend(_of_redis(settings))
    if settings.journal.url and all(one.ok for one in findings if one.what == "journal"):
        findings.extend(_of_database(settings))
    findings.extend(_of_files(settings))
    if is_there and settings.journal.url:
        findings.append(_finding("group", _look_at_group, settings))
    seen = {one.what: one.ok for one in findings}
    findings.extend(look_at_rights(settings, Role.WORKER, ok=seen))
    return findings


def _finding(what: str, look: Callable[[Settings], str], settings: Settings) -> CheckResult:
    try:
        return CheckResult(what, look(settings))
    except OncewardError as error:
        where = {"redis": settings.redis.url, "journal": settings.journal.url}.get(what)
        place = f"{_without_password(where)}: " if where else ""
        return CheckResult(what, f"{place}{error}", error.exit_code)


def _look_at_settings(settings: Settings) -> str:
    faults = list(_settings_that_disagree(settings))
    if faults:
        raise SettingsError("; ".join(faults))
    worker = settings.worker
    return f"{worker.slots} slots, buffer of {worker.buffer_size}, group {settings.kafka.group}"


def _settings_that_disagree(settings: Settings) -> Iterator[str]:
    """Name settings that are right alone and wrong together."""
    journal, client = settings.journal, settings.client
    if journal.wait_s <= journal.lease_s:
        yield (
            f"[journal] wait_s ({journal.wait_s:g}) must be longer than lease_s "
            f"({journal.lease_s:g}): else requests are given up while a sweep waits"
        )
    if client.resend_after_s <= settings.redis.heartbeat_ttl_s:
        yield (
            f"[client] resend_after_s ({client.resend_after_s:g}) should be longer than [redis] "
            f"heartbeat_ttl_s ({settings.redis.heartbeat_ttl_s:g}): else everything slow is resent"
        )
    lifetimes = {"status_ttl_s": settings.redis.status_ttl_s} | {
        f"outcome_ttl_s.{name}": ttl_s for name, ttl_s in settings.redis.outcome_ttl_s.items()
    }
    for name, ttl_s in lifetimes.items():
        if ttl_s <= client.deadline_s:
            yield (
                f"[redis] {name} ({ttl_s:g}) must be longer than [client] deadline_s "
                f"({client.deadline_s:g}): else a status is gone before its client has read it"
            )


def _look_at_handlers(settings: Settings) -> str:
    if not settings.worker.handlers:
        raise SettingsError("[worker] handlers names no module")
    registry = HandlerRegistry.load(settings.worker.handlers, group=settings.kafka.group)
    registry.load_schemas()
    return ", ".join(f"{handler.topic} ({handler.name})" for handler in registry.handlers)


def _look_at_kafka(settings: Settings) -> str:
    source = KafkaSource(settings.kafka, ())
    try:
        version = source.broker_version()
        handlers = _handlers(settings)
        topics = expected(handlers)
        # One topic may be named by two settings: the writer's and the reader's.
        names = [*dict.fromkeys([*topics, *_beside(settings, handlers)])]
        missing = source.missing(names)
    finally:
        source.close()
    where = settings.kafka.bootstrap_servers
    if missing:
        raise NotAvailable(f"{where} {not_there(settings.kafka, missing)}")
    protocol = f", protocol of {version}" if version else ""
    return f"{where}{protocol}, {len(topics)} topics there"


def _handlers(settings: Settings) -> tuple[Handler, ...]:
    try:
        return HandlerRegistry.load(settings.worker.handlers, group=settings.kafka.group).handlers
    except SettingsError:
        return ()  # named by its own finding


def _beside(settings: Settings, handlers: Iterable[Handler]) -> Iterator[str]:
    """Yield the topics beside those of requests that a person has to make.

    `_look_at_waits` looks at the compacted ones.
    """
    if not settings.worker.create_topics:
        for one in needed_topics(settings, handlers):
            if not one.is_compacted:
                yield one.name


def _look_at_redis(settings: Settings) -> str:
    store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
    try:
        return f"{_without_password(settings.redis.url)}, version {store.server_version()}"
    finally:
        store.close()


def _of_redis(settings: Settings) -> Iterator[CheckResult]:
    """Check the policy of a full Redis."""
    store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
    try:
        policy = store.evicts_by()
    except OncewardError as error:
        yield CheckResult("redis memory", str(error), error.exit_code)
        return
    finally:
        store.close()
    if policy:
        told = f"maxmemory-policy {policy}: a full server drops statuses and payloads of requests"
        yield CheckResult("redis memory", f"{told}; set noeviction", ExitCode.BAD_ANSWER)


def _of_database(settings: Settings) -> Iterator[CheckResult]:
    """Check the settings of a PostgreSQL on which the promises rest."""
    try:
        with closing(_journal(settings)) as journal:
            standing = journal.standing()
    except OncewardError as error:
        yield CheckResult("database", str(error), error.exit_code)
        return
    if standing is not None:
        wanted = connections(settings.worker.slots, _handlers(settings))
        wrong = list(standing_faults(standing, wanted=wanted))
        code = ExitCode.BAD_ANSWER if wrong else ExitCode.FINE
        yield CheckResult(
            "database", "; ".join([*wrong, *described(standing, wanted=wanted)]), code
        )


def _of_files(settings: Settings) -> Iterator[CheckResult]:
    """Check the rights of database files that an earlier version, or somebody else, made."""
    found = open_files(one.url for one in (settings.journal, settings.registry, settings.outbox))
    if found:
        yield CheckResult("files", open_files_words(found), ExitCode.BAD_ANSWER)


def _look_at_waits(settings: Settings) -> str:
    handlers = _handlers(settings)
    wrong = list(wait_topic_faults(settings, handlers))
    if wrong:
        raise SettingsError("; ".join(wrong))
    wanting = [one.topic for one in handlers if one.delivery is DeliveryKind.AT_LEAST_ONCE]
    return f"kept for {', '.join(wanting)}"


def _look_at_journal(settings: Settings) -> str:
    if not settings.journal.url:
        require_no_journal(_handlers(settings))
        return "none, and no handler needs one"
    with closing(_journal(settings)) as journal:
        version = journal.ping()
        journal.require_current()
    return f"{_without_password(settings.journal.url)}, {version}"


def _look_at_group(settings: Settings) -> str:
    """Compare the journal's id with the group's, without giving the group one as a worker does."""
    store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
    with closing(_journal(settings)) as journal, closing(store):
        mine, stands = journal.journal_id(), _read(store, store.journal_key)
        highest, timeline = _read(store, store.timeline_key), _timeline(settings)
        others = [] if stands else journal.other_groups()
    if stands is None:
        return f"no worker of it has started yet{_beside_groups(others)}"
    compare_journals(store, stands=stands, mine=mine)
    if highest is not None and timeline is not None:
        compare_timelines(store, stands=int(highest), mine=timeline)
    return f"its journal is this one, {mine}"


def _beside_groups(others: Sequence[str]) -> str:
    if not others:
        return ""
    return (
        f"; the journal has requests of {', '.join(others)}: if this is a new name of one of them, "
        "keep the old one, or its requests run again"
    )


def _timeline(settings: Settings) -> int | None:
    leases = Leases(settings.journal.url, group=settings.kafka.group, worker_id="")
    with closing(leases):
        return leases.timeline()


def _read(store: StatusStore, key: str) -> str | None:
    try:
        found = cast("bytes | None", store.redis.get(key))
    except RedisError as error:
        raise RedisUnavailable(f"Redis: {type(error).__name__}") from error
    return None if found is None else found.decode()


def _journal(settings: Settings) -> Journal:
    return Journal(settings.journal.url, group=settings.kafka.group, worker_id="")


def _without_password(url: str) -> str:
    """Return a URL that can be shown.

    >>> _without_password("redis://me:secret@cache:6379/0")
    'redis://me:***@cache:6379/0'
    >>> _without_password("postgresql+psycopg://db/onceward?password=secret&sslmode=require")
    'postgresql+psycopg://db/onceward?password=***&sslmode=require'
    """
    parts = urlsplit(url)
    query = re.sub(r"(password=)[^&]*", r"\1***", parts.query)
    netloc = parts.netloc
    if parts.password is not None:
        netloc = f"{parts.username or ''}:***@{netloc.rpartition('@')[2]}"
    if (netloc, query) == (parts.netloc, parts.query):
        return url  # urlunsplit would take a slash from sqlite:////
    return urlunsplit(parts._replace(netloc=netloc, query=query))
