"""The pages of redrives: the preview of one, all of them, and one with its progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from consumer.console.letter_choice import DLQ, asked_of
from consumer.console.paths import SEE_OTHER
from consumer.console.people import require_role
from consumer.console.previews import (
    DISCARD,
    REDRIVE,
    Preview,
    Previews,
    asks_all_the_same,
    warning_of,
)
from consumer.console.redrives import BackgroundRedrives
from consumer.console.rendering import Page, Templates
from consumer.console.sources import source_of
from consumer.dlq.filter import LetterFilter
from consumer.dlq.options import AGAIN_WORDS, DISCARD_AGAIN_WORDS, UNKNOWN_WORDS, given_of
from consumer.dlq.redrive.endings import redrive_json
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.progress import SENT, left_out_in_words
from consumer.dlq.redrive.redrive_plan import RedrivePlan
from consumer.dlq.redrive.redrive_session import (
    RedriveEnding,
    asked_anew_since,
    redrives_of,
    stand_of,
)
from consumer.dlq.redrive.risks import AGAIN, UNKNOWN
from consumer.dlq.unfinished import is_at_work, unfinished_of
from consumer.handlers.request import idempotency_key
from consumer.journal.redrive.later_requests import NamedLater
from consumer.journal.redrive.redrive_row import RUNNING, Redrive
from consumer.journal.redrive.redrive_rule import IN_WORDS, Redrivable
from consumer.journal.redrive.reopening import replacement_id
from feedback.console.printable import printable
from feedback.errors import SettingsError
from feedback.settings.settings import Settings
from feedback.sql.keeping import KEPT

LISTED = 50
# The fields of the form, and the options of the commands.
LISTS = {
    "id": "ids",
    "topic": "topics",
    "reason": "reasons",
    "code": "codes",
    "class": "classes",
    "message": "messages",
}
TEXTS = {"since": "since", "until": "until", "contains": "text", "key": "key"}
# The boxes of the form of each action, and their words.
BOXES = {
    REDRIVE: {UNKNOWN: UNKNOWN_WORDS, AGAIN: AGAIN_WORDS},
    DISCARD: {AGAIN: DISCARD_AGAIN_WORDS},
}
# The boxes that take the letters which are left for a reason.
_TAKING = {
    IN_WORDS[Redrivable.NO_ROW]: (UNKNOWN,),
    IN_WORDS[Redrivable.SENT_BEFORE]: (UNKNOWN, AGAIN),
}


class RedrivePages:
    """The pages of redrives of one group; any thread may call them."""

    def __init__(
        self,
        settings: Settings,
        templates: Templates,
        *,
        redrives: BackgroundRedrives,
        previews: Previews,
    ) -> None:
        self._settings = settings
        self._page = templates.page
        self._redrives = redrives
        self._previews = previews

    def routes(self) -> Iterator[tuple[str, Page]]:
        """Yield the path of each page, and the page."""
        yield "/choose/{kind}", self.choose
        yield "/redrives", self.redrives
        yield "/redrives/{redrive_id}", self.redrive

    def choose(self, request: Request) -> Response:
        """Choose letters for an action by a filter, and preview it."""
        kind = request.path_params["kind"]
        if kind not in (REDRIVE, DISCARD):
            raise HTTPException(404, "there is no such action")
        require_role(request.state.person, kind)
        query = asked_of(request.query_params)
        asked = {name: query.get(name, "") for name in (*LISTS, *TEXTS)}
        # The others are compared whole: without a reason of blanks it would be another filter.
        asked |= {name: asked[name].strip() for name in ("id", "since", "until")}
        asked[DLQ] = source_of(self._settings.console, query)
        boxes = frozenset(name for name in BOXES[kind] if name in query)
        options: dict[str, Any] = {TEXTS[name]: asked[name] for name in TEXTS if asked[name]}
        options |= {LISTS[name]: [asked[name]] for name in LISTS if asked[name]}
        options["dlqs"] = [*filter(None, [asked[DLQ]])]
        try:
            given = given_of(**options)
        except SettingsError as error:
            return self.chosen(request, kind, asked, None, boxes=boxes, said=str(error))
        # The moments that are looked at: "two hours ago" is another one with each click.
        asked |= given.filter.ends()
        if given.filter == LetterFilter() and not given.dlqs and "all" not in request.query_params:
            return self.chosen(request, kind, asked, None, boxes=boxes)
        plan = RedrivePlan(
            given.filter,
            given.topics,
            given.dlqs,
            deadline_s=self._settings.client.deadline_s,
            takes_unknown=UNKNOWN in boxes,
            sends_again=AGAIN in boxes,
        )
        return self.chosen(request, kind, asked, self._previews.of(kind, plan), boxes=boxes)

    def chosen(
        self,
        request: Request,
        kind: str,
        asked: dict[str, str] | None,
        preview: Preview | None,
        *,
        boxes: Collection[str] = (),
        said: str = "",
        status: int = 200,
    ) -> Response:
        """Return the page of a preview.

        Args:
            asked: the fields of the filter; None where they are not known any more.
            boxes: those that are ticked.
            said: why there is none, or why it is shown again.
        """
        sealed = self._previews.sealed(preview) if preview is not None else ""
        return self._page(
            request,
            "choose",
            status=status,
            page="letters",
            kind=kind,
            asked=asked,
            kept={name: one for name, one in (asked or {}).items() if one != printable(one)},
            takes_all="all" in request.query_params,
            preview=preview,
            sources=("", *self._settings.console.dead_letter_topics),
            boxes=boxes,
            box_words=BOXES[kind],
            offers={} if preview is None else _offers(kind, asked or {}, preview, boxes),
            sealed=sealed,
            said=said,
        )

    def redrives(self, request: Request) -> Response:
        """List the redrives, the latest first."""
        with closing(redrives_of(self._settings)) as rows:
            latest = rows.latest(LISTED)
            unsent = {one.redrive_id: len(one.requests) for one in unfinished_of(self._settings)}
            # Nothing else sends what these have left, however old they are.
            older = [rows.find(one) for one in unsent.keys() - {one.redrive_id for one in latest}]
        found = [_stands(one) for one in (*latest, *filter(None, older))]
        shown = [(one, redrive_json(one)) for one in found]
        return self._page(
            request,
            "redrives",
            page="letters",
            redrives=shown,
            unsent=unsent,
            most=LISTED if len(latest) == LISTED else None,
        )

    def redrive(self, request: Request) -> Response:
        """Show how far a redrive is, and its result."""
        return self.stands(request, request.path_params["redrive_id"])

    def begun(self, work: Callable[[RedrivePace], RedriveEnding], rate: float | None) -> Response:
        """Lead to the page of a redrive that begins in the background.

        Raises:
            HTTPException: too many are at work.
        """
        redrive_id = self._redrives.start(work, rate=rate)
        if redrive_id is None:
            raise HTTPException(409, "other redrives are at work in this console: try again later")
        return to_redrive(redrive_id)

    def stands(
        self, request: Request, redrive_id: str, later: NamedLater | None = None
    ) -> Response:
        """Return the page of a redrive.

        Args:
            later: the later requests that were not confirmed: the page asks for that, as a 409.
        """
        found = self._found(redrive_id)
        if found is None:
            # A kept connection may lead to a server that the journal's name has left since.
            with KEPT.anew():
                found = self._found(redrive_id)
        here = self._redrives.find(redrive_id)
        if found is None:
            # Its row may be in the database to which the journal's name led before.
            fault = here.fault if here is not None else ""
            raise HTTPException(404, fault or f"there is no redrive {redrive_id}")
        one, plan = _stands(found), RedrivePlan.from_json(found.filter)
        status = 200 if later is None else 409
        if later is None and "go-on" in request.query_params and one.owner is None:
            require_role(request.state.person, "resume_redrive")
            later = asked_anew_since(self._settings, redrive_id)
        return self._page(
            request,
            "redrive",
            status=status,
            page="letters",
            one=one,
            facts=redrive_json(one),
            left_out=left_out_in_words(one.left_out),
            stand=stand_of(found),
            # A process that has ended still stands in the row that a person cancels.
            process=found.owner or "",
            plan=plan,
            replaced=_replaced(one, plan, self._settings.kafka.group),
            here=here,
            progress=_progress(one),
            later=later,
            warning="" if later is None else warning_of(later),
            asks=later is not None and asks_all_the_same(later),
            was_asked=status == 409,
            refreshes=one.owner is not None,
        )

    def _found(self, redrive_id: str) -> Redrive | None:
        with closing(redrives_of(self._settings)) as rows:
            return rows.find(redrive_id)


def _offers(
    kind: str, asked: Mapping[str, str], preview: Preview, boxes: Collection[str]
) -> dict[str, str]:
    """Return addresses that take letters which are left, by the reason in words."""
    fields = {name: text for name, text in asked.items() if text}
    everything = {} if fields else {"all": "yes"}
    found = {}
    for why, names in _TAKING.items():
        taking = [name for name in names if name in BOXES[kind]]
        if asked and taking and why in preview.left:
            ticked = dict.fromkeys([*boxes, *taking], "yes")
            found[why] = f"/choose/{kind}?{urlencode(fields | everything | ticked)}"
    return found


def _stands(one: Redrive) -> Redrive:
    """Return a redrive without an owner that has certainly ended, or that is silent for long."""
    is_running = one.state == RUNNING and is_at_work(one.owner, one.silent_ms)
    return one if is_running else one._replace(owner=None)


def to_redrive(redrive_id: str) -> Response:
    """Lead to the page of a redrive."""
    return RedirectResponse(f"/redrives/{quote(redrive_id, safe='')}", SEE_OTHER)


def _replaced(one: Redrive, plan: RedrivePlan, group: str) -> list[tuple[str, str, str]]:
    """Return named requests that new ones replace: each old id, its new one, and that one's key."""
    if plan.setting is None:
        return []
    sent = sorted(name for name, became in one.named.items() if became == SENT)[:LISTED]
    named = [(name, replacement_id(one.redrive_id, name)) for name in sent]
    return [(old, new, idempotency_key(group, new, 0)) for old, new in named]


def _progress(one: Redrive) -> tuple[int, int]:
    """Return how many of the letters it has read, and how many there are to read."""
    total = sum(end - begin for begin, end in one.spans.values())
    read = sum(one.positions.get(place, begin) - begin for place, (begin, _) in one.spans.items())
    return read, total
