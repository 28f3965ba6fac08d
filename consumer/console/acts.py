"""The actions of people. All of them pass `Acts.carry_out`, which looks at the person's role.

Each calls the function that the command of the same name calls, and is written to the journal with
the person's name by the transaction that changes anything. So where the console dies before that,
nothing has happened; where it dies after it and before its answer, it is done, and the page of the
request says so. Of two people with the same action the second is told how it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from math import inf
from urllib.parse import quote

import click
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from consumer.console.entrance import OLD_FORM, Form
from consumer.console.pages import is_number
from consumer.console.paths import SEE_OTHER
from consumer.console.people import Person, require_role
from consumer.console.previews import (
    DISCARD,
    REDRIVE,
    Confirmed,
    Previews,
    asks_all_the_same,
    warning_of,
)
from consumer.console.redrive_pages import RedrivePages
from consumer.console.redrives import BackgroundRedrives
from consumer.dlq.dates import moment
from consumer.dlq.discard_command import UNDONE_WORDS, discard_letters, undo_discard
from consumer.dlq.options import Given
from consumer.dlq.redrive.loop import How
from consumer.dlq.redrive.session import Ending, asked_anew_since, begin, redrives_of, resume
from consumer.dlq.resolve_command import code_of, resolve_doubt, result_of
from consumer.journal.actions import ActionKind
from consumer.journal.lookup import Lookup
from consumer.journal.pauses import Pauses
from consumer.journal.records import JournalState
from consumer.journal.redrive_rule import Discarded
from consumer.journal.resolving import Decisions
from feedback.errors import InvalidMessage, SettingsError
from feedback.records.envelope import check_request_id
from feedback.settings.settings import Settings

LONGEST_REASON = 1000
# A person types so many characters of the end of an id, and so looks at it.
LAST = 4
# As for `onceward-dlq redrive --rate`.
LOWEST_RATE = 0.1


class Acts:
    """Carries out the actions of people; any thread may call it.

    Args:
        show: returns the page of a request with its value and headers; see `with_payload`.
    """

    def __init__(
        self,
        settings: Settings,
        redrives: BackgroundRedrives,
        previews: Previews,
        *,
        pages: RedrivePages,
        show: Callable[[Request, str, Callable[[], None]], Response],
    ) -> None:
        self._settings = settings
        self._redrives = redrives
        self._previews = previews
        self._pages = pages
        self._show = show
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
        return self._by_name[name](request, form, person.name)

    def _resolve(self, request: Request, form: Form, by: str) -> Response:
        request_id = _request_of(form)
        happened = form.get("happened")
        if happened not in ("yes", "no"):
            raise HTTPException(400, "say whether its effect happened")
        if form.get("last", "").strip() != request_id[-LAST:]:
            raise HTTPException(400, f"those are not the last {LAST} characters of {request_id}")
        try:
            result, code = result_of(_given(form, "result")), code_of(_given(form, "code"))
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
            reason=_reason_of(form),
            by=by,
            generation=_number_of(form, "generation"),
        )
        if done.is_done:
            return _to_request(request_id)
        if done.row is None:
            raise HTTPException(404, f"the journal knows no request {request_id}")
        if done.row.state == JournalState.IN_DOUBT:
            raise HTTPException(409, f"{request_id} has run again since: this is another doubt")
        who = self._who(request_id, ActionKind.RESOLVE)
        raise HTTPException(409, f"{request_id} is {done.row.state}, and in doubt no more{who}")

    def _redrive(self, request: Request, form: Form, by: str) -> Response:
        reason, rate = _reason_of(form), _rate_of(form)
        confirmed = self._confirmed(form, REDRIVE)
        again = self._changed(request, form, confirmed)
        if again is not None:
            return again
        work = partial(
            begin, self._settings, confirmed.plan, by=by, because=reason, within=confirmed.spans
        )
        return self._started(lambda how: work(how=how), rate)

    def _resume_redrive(self, request: Request, form: Form, by: str) -> Response:
        redrive_id, reason, rate = _redrive_of(form), _reason_of(form), _rate_of(form)
        later = asked_anew_since(self._settings, redrive_id)
        is_said = form.get("all_the_same") == warning_of(later)
        if not is_said and asks_all_the_same(later):
            return self._pages.stands(request, redrive_id, later)
        seen = form.get("seen")
        if seen is None:
            raise HTTPException(400, OLD_FORM)
        work = partial(resume, self._settings, redrive_id, by=by, because=reason, seen=seen)
        return self._started(lambda how: work(how=how), rate)

    def _started(self, work: Callable[[How], Ending], rate: float | None) -> Response:
        redrive_id = self._redrives.start(work, rate=rate)
        if redrive_id is None:
            raise HTTPException(409, "other redrives are at work in this console: try again later")
        return _to_redrive(redrive_id)

    def _pause_redrive(self, request: Request, form: Form, by: str) -> Response:
        redrive_id, reason = _redrive_of(form), _reason_of(form)
        if not self._redrives.is_at_work(redrive_id):
            raise HTTPException(409, f"redrive {redrive_id} is not at work in this console")
        with closing(redrives_of(self._settings)) as rows:
            rows.note_pause(redrive_id, by=by, reason=reason)
        self._redrives.pause(redrive_id)
        return _to_redrive(redrive_id)

    def _cancel_redrive(self, request: Request, form: Form, by: str) -> Response:
        redrive_id, reason = _redrive_of(form), _reason_of(form)
        with closing(redrives_of(self._settings)) as rows:
            rows.journal_id()
            if not rows.cancel(redrive_id, by=by, reason=reason):
                raise HTTPException(409, f"redrive {redrive_id} does not run any more")
        # One of this console need not wait until its rate allows the next letter.
        self._redrives.pause(redrive_id)
        return _to_redrive(redrive_id)

    def _discard(self, request: Request, form: Form, by: str) -> Response:
        reason = _reason_of(form)
        confirmed = self._confirmed(form, DISCARD)
        again = self._changed(request, form, confirmed)
        if again is not None:
            return again
        plan = confirmed.plan
        given = Given(plan.filter, plan.topics, plan.dlqs)
        done = discard_letters(
            self._settings, given, by=by, because=reason, how=How(), within=confirmed.spans
        )
        if not done.taken:
            raise HTTPException(409, "somebody was quicker: none of these can be discarded now")
        ids = sorted(plan.filter.ids)
        return _to_request(ids[0]) if given.is_one_id else RedirectResponse("/actions", SEE_OTHER)

    def _undo_discard(self, request: Request, form: Form, by: str) -> Response:
        request_id, reason = _request_of(form), _reason_of(form)
        found = undo_discard(self._settings, [request_id], by=by, because=reason)[request_id]
        if found is not Discarded.UNDONE:
            raise HTTPException(409, f"{request_id}: {UNDONE_WORDS[found]}")
        return _to_request(request_id)

    def _resume_topic(self, request: Request, form: Form, by: str) -> Response:
        topic = form.get("topic", "")
        if not topic:
            raise HTTPException(400, "say which topic")
        with closing(Pauses.from_settings(self._settings)) as pauses:
            if pauses.resume(topic, by=by, since=_number_of(form, "since")) is None:
                raise HTTPException(409, f"{topic} goes on already, or was paused anew: look again")
        return RedirectResponse("/topics", SEE_OTHER)

    def _look(self, request: Request, form: Form, by: str) -> Response:
        """Show the value and headers of a request, once the look is in the journal.

        The page is the answer itself: another look is another action.
        """
        request_id = _request_of(form)

        def record() -> None:
            with closing(Decisions.from_settings(self._settings)) as decisions:
                decisions.look(request_id, by=by)

        return self._show(request, request_id, record)

    def _confirmed(self, form: Form, kind: str) -> Confirmed:
        try:
            return self._previews.opened(form.get("preview", ""), kind)
        except SettingsError as error:
            raise HTTPException(400, str(error)) from error

    def _changed(self, request: Request, form: Form, confirmed: Confirmed) -> Response | None:
        """Return the preview anew where it differs from the one that its person has confirmed.

        Between this look and the action a letter may still change: the journal judges each once
        more, in the transaction that takes it.
        """
        kind, plan = confirmed.kind, confirmed.plan
        now = self._previews.of(kind, plan, within=confirmed.spans)
        said = ""
        if now.seen != confirmed.seen:
            said = f"It has changed since you looked: {confirmed.count:,} then, {now.count:,} now."
        elif asks_all_the_same(now.later) and "all_the_same" not in form:
            said = "Say that you want it all the same: later requests may have done their work."
        return self._pages.chosen(request, kind, None, now, said=said, status=409) if said else None

    def _who(self, request_id: str, kind: ActionKind) -> str:
        """Return in words the name of a person who was quicker; nothing where nobody was."""
        with closing(Lookup.from_settings(self._settings)) as lookup:
            actions = lookup.actions([request_id]).get(request_id, [])
        found = [one for one in actions if one.action == kind]
        if not found:
            return ""
        last = found[-1]
        return f": {last.by} has resolved it at {moment(last.at)} ({last.reason})"


def _given(form: Form, name: str) -> str | None:
    return form.get(name, "").strip() or None


def _reason_of(form: Form) -> str:
    said = form.get("because", "").strip()
    if not 0 < len(said) <= LONGEST_REASON:
        raise HTTPException(400, f"say why, in 1 to {LONGEST_REASON} characters: it is recorded")
    return said


def _rate_of(form: Form) -> float | None:
    said = _given(form, "rate")
    try:
        rate = None if said is None else float(said)
    except ValueError:
        rate = 0.0
    if rate is not None and not LOWEST_RATE <= rate < inf:
        raise HTTPException(400, f"letters a second are a number from {LOWEST_RATE} on")
    return rate


def _number_of(form: Form, name: str) -> int:
    """Return which doubt, or which pause, the person has seen."""
    given = form.get(name, "")
    if not is_number(given):
        raise HTTPException(400, OLD_FORM)
    return int(given)


def _redrive_of(form: Form) -> str:
    redrive_id = form.get("redrive_id", "")
    if not redrive_id:
        raise HTTPException(400, "say which redrive")
    return redrive_id


def _request_of(form: Form) -> str:
    try:
        return check_request_id(form.get("request_id", ""))
    except InvalidMessage as error:
        raise HTTPException(400, str(error)) from error


def _to_request(request_id: str) -> Response:
    return RedirectResponse(f"/requests/{quote(request_id, safe='')}", SEE_OTHER)


def _to_redrive(redrive_id: str) -> Response:
    return RedirectResponse(f"/redrives/{quote(redrive_id, safe='')}", SEE_OTHER)
