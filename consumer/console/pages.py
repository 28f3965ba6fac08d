"""The pages: each reads its facts and fills its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from consumer.console import live, state_diagram
from consumer.console.audit_days import audit_days, last_judged, report_file
from consumer.console.facts import FactReaders, SharedReading, flat
from consumer.console.fields import is_number
from consumer.console.letter_board import LetterBoards
from consumer.console.letter_page import DeadLetterPage
from consumer.console.needs import Overview, guarded_topics, needs_of
from consumer.console.owed import owed_late
from consumer.console.paths import REQUEST, SEE_OTHER
from consumer.console.rendering import Page, Templates, is_part
from consumer.console.sources import all_of, source_of
from consumer.dlq.dates import moment_ms
from consumer.dlq.decoded import decoded, header_text
from consumer.dlq.doubts_list import count_open_doubts, newest_doubts, resolve_commands
from consumer.dlq.next_commands import next_commands
from consumer.dlq.report import RequestReport
from consumer.dlq.report_reading import report_of
from consumer.dlq.timeline import timeline_of
from consumer.dlq.timeline_words import event_words, holder_words
from consumer.journal.pauses import Pauses
from consumer.journal.records import JournalState
from consumer.journal.searching import FoundRequests, JournalSearch, RequestQuery
from consumer.journal.topic_load import LoadsFound, TopicLoads
from consumer.ops.outbox_counts import outbox_counts
from consumer.ops.workers.workers import UNREADABLE, paces_of
from consumer.ops.workers.workers_reading import workers_of
from feedback.clock import epoch_ms
from feedback.errors import InvalidMessage, SettingsError
from feedback.records.envelope import Headers, check_request_id
from feedback.settings.settings import Settings
from feedback.status import State

LISTED = 100
VALUE_LIMIT = 65_536
HEADER_LIMIT = 2000
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:"
)


class ConsolePages:
    """The pages of one group; any thread may call them.

    Args:
        file: of the settings; see `app`.
        people_fault: returns the sentence of `Entrance.people_fault`.
    """

    def __init__(
        self,
        settings: Settings,
        templates: Templates,
        *,
        file: str | None,
        people_fault: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._file = file
        self._people_fault = people_fault
        self._page = templates.page
        self._readers = FactReaders()
        self._letters = LetterBoards(settings)
        self._letter_page = DeadLetterPage(settings.console, templates, self._letters)
        self._overview = SharedReading(self._overviewed)
        self._workers = SharedReading(lambda: workers_of(settings))

    def routes(self) -> Iterator[tuple[str, Page]]:
        """Yield the path of each page, and the page."""
        yield "/", self.now
        yield "/workers", self.workers
        yield "/requests", self.requests
        yield "/requests/{request_id:path}", self.searched
        yield REQUEST, self.request
        yield "/doubts", self.doubts
        yield "/letters", self._letter_page.show
        yield "/topics", self.topics
        yield "/actions", self.actions
        yield "/audit", self.audit
        yield "/audit/{day}", self.report

    def close(self) -> None:
        """Begin no further reading."""
        self._readers.close()
        self._letters.close()

    def now(self, request: Request) -> Response:
        """Show the verdict, and the tasks of a person."""
        seen = self._overview.of(within_s=_shared_s(request))
        return self._page(
            request,
            "now",
            page="",
            seen=seen,
            needs=needs_of(seen),
            pace=paces_of(seen.workers.value.rows if seen.workers.value else ()),
            last_day=last_judged(seen.days.value or ()),
        )

    def workers(self, request: Request) -> Response:
        """Show each worker and its slots, and the claims that dead ones have left."""
        found = self._workers.of(within_s=_shared_s(request))
        return self._page(request, "workers", page="workers", found=found, unreadable=UNREADABLE)

    def requests(self, request: Request) -> Response:
        """Search requests."""
        asked = {name: request.query_params.get(name, "").strip() for name in _ASKED}
        fault, found = "", FoundRequests([], None)
        try:
            query = _query(asked)
            with closing(JournalSearch.from_settings(self._settings)) as search:
                found = search.requests(query, most=LISTED, behind=_place(request))
        except (SettingsError, ValueError) as error:
            fault = str(error)
        states = [one.value for one in JournalState]
        return self._page(
            request,
            "requests",
            page="requests",
            asked=asked,
            found=found,
            fault=fault,
            states=states,
        )

    def searched(self, request: Request) -> Response:
        """Lead to the search for an id in a path, which may be a part of the one that was typed."""
        name = quote(request.path_params["request_id"], safe="")
        return RedirectResponse(f"/requests?id={name}", SEE_OTHER)

    def request(self, request: Request) -> Response:
        """Show all that is known of a request; see `request_address`."""
        return self._report(request, request.query_params.get("id", ""), request.query_params)

    def with_payload(
        self, request: Request, form: Mapping[str, str], name: str, record: Callable[[], None]
    ) -> Response:
        """Show a request with its value and headers.

        Args:
            form: says in which dead letter topic its letters are.
            record: called before anything is shown; not for a request that nobody knows.
        """
        return self._report(request, name, form, record)

    def _report(
        self,
        request: Request,
        name: str,
        asked: Mapping[str, str],
        record: Callable[[], None] | None = None,
    ) -> Response:
        dlq = source_of(self._settings.console, asked)
        try:
            check_request_id(name)
        except InvalidMessage as error:
            raise HTTPException(404, str(error)) from error
        asks = record is not None or bool(dlq) or "letters" in request.query_params
        report = report_of(
            self._settings, name, all_of(dlq), ask_kafka=asks, advance=lambda read, total: None
        )
        if record is not None and report.is_known:
            record()
        return self._page(
            request,
            "request",
            status=200 if report.is_known else 404,
            page="requests",
            report=report,
            dlq=dlq,
            diagram=state_diagram,
            stands=_stands(report),
            events=[(one, event_words(one)) for one in timeline_of(report)],
            holder=holder_words(report.holder),
            commands=next_commands(report, config=self._file),
            asks=asks,
            discard=report.discard_of_letter,
            payload=_payload(report) if record is not None else None,
            letters_below=list(reversed(report.letters)),
        )

    def doubts(self, request: Request) -> Response:
        """Show the open doubts, the newest first."""
        found = newest_doubts(self._settings, limit=LISTED)
        commands = {
            one.request_id: resolve_commands(one, config=self._file) for one in found.newest
        }
        return self._page(request, "doubts", page="doubts", found=found, commands=commands)

    def topics(self, request: Request) -> Response:
        """Show the topics, with the requests that wait on each, and which are paused."""
        workers = self._readers.begin(lambda: workers_of(self._settings))
        counts = self._readers.begin(self._loads)
        outbox_counts_of = self._readers.begin(lambda: outbox_counts(self._settings))
        pauses, found, load = self._readers.begin(self._pauses)(), workers(), counts()
        outbox = outbox_counts_of()
        rows = found.value.rows if found.value else []
        unseen = [
            f"{one.worker_id}: {UNREADABLE}"
            for one in rows
            if one.heartbeat and not one.heartbeat.is_read
        ]
        if found.value and found.value.away:
            unseen.append(found.value.away)
        lag: dict[str, int] = {}
        handlers: dict[str, set[str]] = {}
        loads = [one.heartbeat.load for one in rows if one.heartbeat]
        for one in loads:
            for topic, records in one.lag.items():
                lag[topic] = lag.get(topic, 0) + records
            for topic, words in one.handlers.items():
                handlers.setdefault(topic, set()).add(words)
        guarded: dict[str, list[str]] = {}
        for row in rows:
            for topic in guarded_topics(row):
                guarded.setdefault(topic, []).append(row.worker_id)
        paused = {one.topic: one for one in pauses.value or ()}
        pace = paces_of(rows)
        names = sorted(
            {
                *lag,
                *handlers,
                *pace,
                *paused,
                *guarded,
                *(load.value.by_topic if load.value else ()),
                *(outbox.value.by_topic if outbox.value else ()),
                *self._settings.audit.topics,
            }
        )
        return self._page(
            request,
            "topics",
            page="topics",
            names=names,
            lag=lag,
            load=load.value,
            outbox=outbox,
            has_outbox=bool(self._settings.outbox.url),
            pace=pace,
            handlers=handlers,
            paused=paused,
            guarded=guarded,
            is_known=pauses.value is not None and found.value is not None and not unseen,
            away={why for why in (pauses.why, found.why, load.why, *unseen) if why},
        )

    def actions(self, request: Request) -> Response:
        """Show the actions of people, the latest first."""
        before = request.query_params.get("before", "")
        with closing(JournalSearch.from_settings(self._settings)) as search:
            found = search.actions(most=LISTED, before=int(before) if is_number(before) else None)
        return self._page(request, "actions", page="actions", found=found)

    def audit(self, request: Request) -> Response:
        """Show the audit's days."""
        return self._page(request, "audit", page="audit", days=audit_days(self._settings.audit))

    def report(self, request: Request) -> Response:
        """Return the audit's own page of a day."""
        path = report_file(self._settings.audit.output, request.path_params["day"])
        if path is None:
            raise HTTPException(404, "there is no report of that day")
        # It brings its own policy, for its one script.
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return FileResponse(path, media_type="text/html", headers=headers)

    def _overviewed(self) -> Overview:
        settings = self._settings
        begin = self._readers.begin
        workers, doubts, owed, pauses, days = (
            begin(lambda: workers_of(settings)),
            begin(lambda: count_open_doubts(settings)),
            begin(lambda: owed_late(settings)),
            begin(self._pauses),
            begin(lambda: audit_days(settings.audit)),
        )
        dlqs = settings.console.dead_letter_topics
        others = {one: begin(partial(self._letters.count, one)) for one in dlqs}
        letters = self._letters.count()
        theirs = {one: flat(look()) for one, look in others.items()}
        return Overview(
            workers(),
            doubts(),
            letters,
            owed(),
            pauses(),
            days(),
            theirs,
            self._people_fault(),
        )

    def _loads(self) -> LoadsFound:
        with closing(TopicLoads.from_settings(self._settings)) as loads:
            return loads.find()

    def _pauses(self) -> Any:
        with closing(Pauses.from_settings(self._settings)) as pauses:
            return pauses.paused()


def _shared_s(request: Request) -> float:
    """Return how old a reading of another open page may be; a person who opens one sees a new one.

    Streams look at the same moments. Where a reading goes on, one of them may show how it stood
    before a person's act; a later one shows the act.
    """
    return live.EVERY_S / 2 if is_part(request) else 0.0


_ASKED = ("id", "key", "topic", "state", "code", "since", "until")


def _stands(report: RequestReport) -> State | None:
    row = None if report.row is None else report.row.state
    return state_diagram.standing(row, None if report.status is None else report.status.state)


def _payload(report: RequestReport) -> dict[str, Any]:
    """Return the value and headers of a request as texts, as far as anybody keeps them."""
    headers: Headers = ()
    if report.letters:
        headers = report.letters[-1].headers
    elif report.payload is not None:
        headers = report.payload.headers
    result = report.row.result if report.row is not None else None
    return {
        "value": decoded(report.value, limit=VALUE_LIMIT) if report.has_value else None,
        "headers": [(name, header_text(raw, limit=HEADER_LIMIT)) for name, raw in headers],
        "result": None if result is None else decoded(result.encode(), limit=VALUE_LIMIT),
    }


def _query(asked: dict[str, str]) -> RequestQuery:
    now_ms = epoch_ms()
    times = {
        name: moment_ms(name, asked[name], now_ms=now_ms) if asked[name] else None
        for name in ("since", "until")
    }
    return RequestQuery(
        request_id=asked["id"],
        key=asked["key"],
        topic=asked["topic"],
        state=asked["state"],
        code=asked["code"],
        **times,
    )


def _place(request: Request) -> tuple[int, str] | None:
    at, name = request.query_params.get("at", ""), request.query_params.get("behind", "")
    return (int(at), name) if is_number(at) else None
