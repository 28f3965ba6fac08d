"""The actions of people. All of them pass `ConsoleActs.carry_out`, which looks at the role.

Each calls the function that the command of the same name calls, and is written to the journal with
the person's name by the transaction that changes anything. So where the console dies before that,
nothing has happened; where it dies after it and before its answer, it is done, and the page of the
request says so. Of two people with the same action the second is told how it stands.

None of them uses a connection that a look has left: it may lead to a server that the name has left.
Nor does the look after it, which would not find there what was done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from functools import partial
from urllib.parse import quote

import click
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from consumer.console.entrance import OLD_PAGE, Form
from consumer.console.fields import (
    confirmed_of,
    field_of,
    rate_of,
    reason_of,
    redrive_of,
    request_of,
    require_last,
    seen_number,
)
from consumer.console.paths import SEE_OTHER, request_address
from consumer.console.people import Person, require_role
from consumer.console.previews import (
    DISCARD,
    REDRIVE,
    ConfirmedPreview,
    Preview,
    Previews,
    asks_all_the_same,
    change_since,
    warning_of,
)
from consumer.console.redrive_pages import LISTED, RedrivePages, to_redrive
from consumer.console.redrives import BackgroundRedrives
from consumer.console.sources import source_of
from consumer.console.value_edits import ValueEdits, note_look
from consumer.dlq.dates import moment
from consumer.dlq.discard_command import discard_letters, undo_discard, undone_words
from consumer.dlq.filter import LetterFilter
from consumer.dlq.options import LetterOptions
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.redrive_plan import RedrivePlan
from consumer.dlq.redrive.redrive_session import asked_anew_since, begin, redrives_of, resume
from consumer.dlq.resolve_command import code_of, resolve_doubt, result_of
from consumer.dlq.unfinished import is_at_work
from consumer.journal.actions import ActionKind
from consumer.journal.lookup import Lookup
from consumer.journal.pauses import Pauses
from consumer.journal.records import JournalState
from consumer.journal.redrive.redrive_row import RUNNING
from consumer.journal.redrive.redrive_rule import DiscardVerdict
from feedback.settings.settings import Settings
from feedback.sql.keeping import KEPT


class ConsoleActs:
    """Carries out the actions of people; any thread may call it.

    Args:
        edits: carries out those that edit a value into a new request.
        show: returns the page of a request with its value and headers; see `with_payload`.
    """

    def __init__(
        self,
        settings: Settings,
        redrives: BackgroundRedrives,
        previews: Previews,
        *,
        pages: RedrivePages,
        edits: ValueEdits,
        show: Callable[[Request, Form, str, Callable[[], None]], Response],
    ) -> None:
        self._settings = settings
        self._redrives = redrives
        self._previews = previews
        self._pages = pages
        self._show = show
        self._once_more = threading.Lock()
        self._by_name: Mapping[str, Callable[[Request, Form, str], Response]] = {
            "resolve": self._resolve,
            "redrive": self._redrive,
            "resume_redrive": self._resume_redrive,
            "pause_redrive": self._pause_redrive,
            "cancel_redrive": self._cancel_redrive,
            "discard": self._discard,
            "undo_discard": self._undo_discard,
            "resume_topic": self._resume_topic,
            "look": self._look,
            "edit": edits.edit,
            "compare": edits.compare,
            "replace": edits.replace,
        }

    def carry_out(self, request: Request, form: Form, person: Person) -> Response:
        """Do the action that the address names, in the name of a person.

        Raises:
            NotAllowed: the person lacks its role.
            HTTPException: the form lacks something, or somebody was quicker.
        """
        name = request.path_params["act"]
        if name not in self._by_name:
            raise HTTPException(404, "there is no such action")
        require_role(person, name)
        try:
            with KEPT.anew():
                return self._by_name[name](request, form, person.name)
        finally:
            # The person looks next, at what was done or why it was not.
            KEPT.close_all()

    def _resolve(self, request: Request, form: Form, by: str) -> Response:
        request_id = request_of(form)
        happened = form.get("happened")
        if happened not in ("yes", "no"):
            raise HTTPException(400, "say whether its effect happened")
        require_last(form, request_id)
        try:
            result, code = result_of(field_of(form, "result")), code_of(field_of(form, "code"))
        except click.UsageError as error:
            raise HTTPException(400, error.message.removeprefix("--")) from error
        if (happened == "yes" and code) or (happened == "no" and result):
            raise HTTPException(400, "a result is of what happened, a code of what did not")
        done = resolve_doubt(
            self._settings,
            request_id,
            has_succeeded=happened == "yes",
            result=result,
            code=code,
            reason=reason_of(form),
            by=by,
            generation=seen_number(form, "generation"),
        )
        if done.is_done:
            return _to_request(request_id)
        if done.row is None:
            raise HTTPException(404, f"the journal knows no request {request_id}")
        if done.row.state == JournalState.IN_DOUBT:
            run = done.row.generation
            raise HTTPException(409, f"{request_id} is in doubt by run {run} now: another doubt")
        who = self._who(request_id, ActionKind.RESOLVE)
        raise HTTPException(409, f"{request_id} is {done.row.state}, and in doubt no more{who}")

    def _redrive(self, request: Request, form: Form, by: str) -> Response:
        reason, rate = reason_of(form), rate_of(form)
        confirmed = confirmed_of(self._previews, form, REDRIVE)
        work = partial(
            begin, self._settings, confirmed.plan, by=by, because=reason, within=confirmed.spans
        )
        with self._once_more if confirmed.plan.sends_again else nullcontext():
            if confirmed.plan.sends_again:
                self._require_no_other()
            again, _ = self._changed(request, form, confirmed)
            return again or self._pages.begun(lambda pace: work(pace=pace), rate)

    def _resume_redrive(self, request: Request, form: Form, by: str) -> Response:
        redrive_id, reason, rate = redrive_of(form), reason_of(form), rate_of(form)
        later = asked_anew_since(self._settings, redrive_id)
        is_said = form.get("all_the_same") == warning_of(later)
        if not is_said and asks_all_the_same(later):
            return self._pages.stands(request, redrive_id, later)
        seen = form.get("seen")
        if seen is None:
            raise HTTPException(400, OLD_PAGE)
        work = partial(resume, self._settings, redrive_id, by=by, because=reason, seen=seen)
        return self._pages.begun(lambda pace: work(pace=pace), rate)

    def _pause_redrive(self, request: Request, form: Form, by: str) -> Response:
        redrive_id, reason = redrive_of(form), reason_of(form)
        if not self._redrives.is_at_work(redrive_id):
            raise HTTPException(409, f"redrive {redrive_id} is not at work in this console")
        with closing(redrives_of(self._settings)) as rows:
            if not rows.note_pause(redrive_id, by=by, reason=reason, seen=_process_of(form)):
                raise HTTPException(409, _gone_on(redrive_id))
        self._redrives.pause(redrive_id)
        return to_redrive(redrive_id)

    def _cancel_redrive(self, request: Request, form: Form, by: str) -> Response:
        redrive_id, reason = redrive_of(form), reason_of(form)
        with closing(redrives_of(self._settings)) as rows:
            rows.journal_id()
            if not rows.cancel(redrive_id, by=by, reason=reason, seen=_process_of(form)):
                stands = rows.find(redrive_id)
                is_over = stands is None or stands.state != RUNNING
                over = f"redrive {redrive_id} does not run any more"
                raise HTTPException(409, over if is_over else _gone_on(redrive_id))
        # One of this console need not wait until its rate allows the next letter.
        self._redrives.pause(redrive_id)
        return to_redrive(redrive_id)

    def _discard(self, request: Request, form: Form, by: str) -> Response:
        reason = reason_of(form)
        confirmed = confirmed_of(self._previews, form, DISCARD)
        again, now = self._changed(request, form, confirmed)
        if again is not None:
            return again
        plan = confirmed.plan
        given = LetterOptions(plan.filter, plan.topics, plan.dlqs)
        done = discard_letters(
            self._settings,
            given,
            by=by,
            because=reason,
            pace=RedrivePace(),
            takes_sent=plan.sends_again,
            within=confirmed.spans,
            known=now.known,
        )
        if not done.taken:
            raise HTTPException(409, "somebody was quicker: none of these can be discarded now")
        ids = plan.filter.ids
        if len(ids) == 1 and plan.filter == LetterFilter(ids=ids):
            return _to_request(min(ids), min(plan.dlqs, default=""))
        return RedirectResponse("/actions", SEE_OTHER)

    def _undo_discard(self, request: Request, form: Form, by: str) -> Response:
        request_id, reason = request_of(form), reason_of(form)
        dlq = source_of(self._settings.console, form)
        seen = form.get("seen")
        if seen is None:
            raise HTTPException(400, OLD_PAGE)
        settings, is_theirs = self._settings, "theirs" in form
        found = undo_discard(
            settings, [request_id], by=by, because=reason, is_theirs=is_theirs, seen=seen
        )[request_id]
        if found is not DiscardVerdict.UNDONE:
            raise HTTPException(409, undone_words(settings, request_id, found, seen=seen))
        return _to_request(request_id, dlq)

    def _resume_topic(self, request: Request, form: Form, by: str) -> Response:
        topic = form.get("topic", "")
        if not topic:
            raise HTTPException(400, "say which topic")
        with closing(Pauses.from_settings(self._settings)) as pauses:
            if pauses.resume(topic, by=by, since=seen_number(form, "since")) is None:
                raise HTTPException(409, f"{topic} goes on already, or was paused anew: look again")
        return RedirectResponse("/topics", SEE_OTHER)

    def _look(self, request: Request, form: Form, by: str) -> Response:
        """Show the value and headers of a request, once the look is in the journal.

        The page is the answer itself: another look is another action.
        """
        request_id = request_of(form)
        record = partial(note_look, self._settings, request_id, by=by)
        return self._show(request, form, request_id, record)

    def _changed(
        self, request: Request, form: Form, confirmed: ConfirmedPreview
    ) -> tuple[Response | None, Preview]:
        """Return the preview of now, with its page where it differs from the confirmed one.

        Between this look and the action a letter may still change: the journal judges each once
        more, in the transaction that takes it.
        """
        kind, plan = confirmed.kind, confirmed.plan
        now = self._previews.of(kind, plan, within=confirmed.spans)
        said = change_since(confirmed, now, said=form.keys())
        if not said:
            return None, now
        return self._pages.chosen(request, kind, None, now, said=said, status=409), now

    def _require_no_other(self) -> None:
        """Return when no redrive at work sends letters once more that were sent before.

        A courtesy, since a button may be clicked on twice: the journal keeps each of them from what
        the other has sent since the preview. One that has ended is seen in the preview.
        """
        with closing(redrives_of(self._settings)) as rows:
            for one in rows.latest(LISTED):
                is_running = one.state == RUNNING and is_at_work(one.owner, one.silent_ms)
                if is_running and RedrivePlan.from_json(one.filter).sends_again:
                    said = f"redrive {one.redrive_id} sends letters once more: look when it is done"
                    raise HTTPException(409, said)

    def _who(self, request_id: str, kind: ActionKind) -> str:
        """Return in words the name of a person who was quicker; nothing where nobody was."""
        with closing(Lookup.from_settings(self._settings)) as lookup:
            actions = lookup.actions([request_id]).get(request_id, [])
        found = [one for one in actions if one.action == kind]
        if not found:
            return ""
        last = found[-1]
        return f": {last.by} has resolved it at {moment(last.at)} ({last.reason})"


def _process_of(form: Form) -> str:
    """Return the process that the person has seen at a redrive; empty for none."""
    if "process" not in form:
        raise HTTPException(400, OLD_PAGE)
    return form["process"]


def _gone_on(redrive_id: str) -> str:
    return f"somebody has gone on with redrive {redrive_id} since you looked: look again"


def _to_request(request_id: str, dlq: str = "") -> Response:
    query = f"dlq={quote(dlq, safe='')}" if dlq else ""
    return RedirectResponse(request_address(request_id, query), SEE_OTHER)
