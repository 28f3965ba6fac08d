"""The actions of people. All of them pass `Acts.carry_out`, which looks at the person's role.

Each calls the function that the command of the same name calls, and is written to the journal with
the person's name by the transaction that changes anything. So where the console dies before that,
nothing has happened; where it dies after it and before its answer, it is done, and the page of the
request says so. Of two people who do the same the second is told how it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from urllib.parse import quote

import click
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from consumer.console.entrance import Form
from consumer.console.guard import SEE_OTHER
from consumer.console.people import ROLE_OF, Person
from consumer.dlq.dates import moment
from consumer.dlq.resolve_command import code_of, resolve_doubt, result_of
from consumer.journal.actions import ActionKind
from consumer.journal.lookup import Lookup
from feedback.errors import InvalidMessage
from feedback.logs import EventLog
from feedback.records.envelope import check_request_id
from feedback.settings.settings import Settings

log = EventLog("onceward.console")

LONGEST_REASON = 1000
# A person types so many characters of the end of an id, and so looks at it.
LAST = 4


class Acts:
    """Carries out what people ask for; any thread may call it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_name: Mapping[str, Callable[[Form, str], Response]] = {
            "resolve": self._resolve,
        }

    def carry_out(self, request: Request, form: Form, person: Person) -> Response:
        """Do the action that the address names, in the name of a person who may.

        Raises:
            HTTPException: the person may not, the form lacks something, or somebody was quicker.
        """
        name = request.path_params["act"]
        if name not in self._by_name:
            raise HTTPException(404, "there is no such action")
        role = ROLE_OF[name]
        if role not in person.roles:
            log.warning("console.refused", by=person.name, act=name)
            raise HTTPException(403, f"{person.name} may not do this: it takes the role {role}")
        return self._by_name[name](form, person.name)

    def _resolve(self, form: Form, by: str) -> Response:
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
        )
        if done.is_done:
            return _to_request(request_id)
        if done.row is None:
            raise HTTPException(404, f"the journal knows no request {request_id}")
        who = self._who(request_id, ActionKind.RESOLVE)
        raise HTTPException(409, f"{request_id} is {done.row.state}, and in doubt no more{who}")

    def _who(self, request_id: str, kind: ActionKind) -> str:
        """Return in words who was quicker; nothing where nobody was."""
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


def _request_of(form: Form) -> str:
    try:
        return check_request_id(form.get("request_id", ""))
    except InvalidMessage as error:
        raise HTTPException(400, str(error)) from error


def _to_request(request_id: str) -> Response:
    return RedirectResponse(f"/requests/{quote(request_id, safe='')}", SEE_OTHER)
