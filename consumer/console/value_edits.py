"""A person edits the value of a dead letter into a new request.

Three actions follow each other. `edit` shows the form with the value. `compare` shows the new value
beside the old one, and the later requests of the same key. `replace` sends it, as `onceward-dlq
redrive --value` does. Each page with the value is a look, and stands in the journal before.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from consumer.console.entrance import OLD_FORM, Form
from consumer.console.fields import confirmed_of, reason_of, request_of, require_last
from consumer.console.previews import (
    REDRIVE,
    REPLACE,
    Preview,
    Previews,
    change_since,
)
from consumer.console.redrive_pages import BOXES, RedrivePages
from consumer.console.rendering import Templates
from consumer.console.sources import all_of, source_of
from consumer.dlq.editing import NotEditable, changes, editable, edited, value_words
from consumer.dlq.filter import LetterFilter
from consumer.dlq.redrive.redrive_plan import RedrivePlan, WholeValue, json_fault
from consumer.dlq.redrive.redrive_session import begin
from consumer.dlq.redrive.risks import AGAIN, UNKNOWN
from consumer.dlq.report_reading import report_of
from consumer.journal.redrive.redrive_rule import IN_WORDS, Redrivable
from consumer.journal.redrive.resolving import PersonDecisions
from feedback.console.pasting import pasted
from feedback.errors import NotAvailable
from feedback.settings.settings import Settings

_NO_JSON = IN_WORDS[Redrivable.CANNOT_BE_SET]
_BLANK: dict[str, Any] = {
    **dict.fromkeys(("said", "why", "fault", "sealed", "command"), ""),
    "left": {},
    "changes": None,
    "later": None,
    "needs": {},
    "boxes": (),
    "box_words": BOXES[REDRIVE],
    "is_compared": False,
}


class ValueEdits:
    """Carries out the edits of values of one group; any thread may call it.

    Args:
        file: of the settings; see `app`.
    """

    def __init__(
        self,
        settings: Settings,
        templates: Templates,
        *,
        previews: Previews,
        pages: RedrivePages,
        file: str | None,
    ) -> None:
        self._settings = settings
        self._config = () if file is None else ("--config", file)
        self._page = templates.page
        self._previews = previews
        self._pages = pages

    def edit(self, request: Request, form: Form, by: str) -> Response:
        """Show the form with the value of a request's last letter."""
        request_id, dlq = request_of(form), source_of(self._settings.console, form)
        given = all_of(dlq)
        report = report_of(self._settings, request_id, given, advance=lambda read, total: None)
        if report.letters_away is not None:
            raise NotAvailable(f"its dead letters are not known: {report.letters_away}")
        if not report.letters:
            raise HTTPException(404, f"no dead letter is of {request_id}")
        text, why = None, ""
        try:
            text = editable(report.letters[-1].value)
        except NotEditable as error:
            why = str(error)
        else:
            note_look(self._settings, request_id, by=by)
        status = 409 if why else 200
        return self._shown(request, request_id, text, dlq=dlq, why=why, status=status)

    def compare(self, request: Request, form: Form, by: str) -> Response:
        """Show the new value, and later requests of the same key; nothing is changed."""
        request_id, text = request_of(form), form.get("value")
        if text is None:
            raise HTTPException(400, OLD_FORM)
        try:
            value = edited(text)
        except NotEditable as error:
            raise HTTPException(400, str(error)) from error
        plan = RedrivePlan(
            LetterFilter(ids=frozenset([request_id])),
            dlqs=all_of(source_of(self._settings.console, form)).dlqs,
            deadline_s=self._settings.client.deadline_s,
            takes_unknown=UNKNOWN in form,
            sends_again=AGAIN in form,
            setting=WholeValue(value),
        )
        return self._compared(request, self._previews.of(REPLACE, plan), by=by)

    def replace(self, request: Request, form: Form, by: str) -> Response:
        """Send the new request, if all stands as its person has seen it."""
        confirmed = confirmed_of(self._previews, form, REPLACE)
        reason, plan = reason_of(form), confirmed.plan
        require_last(form, _only_id(plan))
        now = self._previews.of(REPLACE, plan, within=confirmed.spans)
        said = change_since(confirmed, now, said=form.keys())
        if said:
            return self._compared(request, now, by=by, said=said)
        work = partial(begin, self._settings, plan, by=by, because=reason, within=confirmed.spans)
        return self._pages.begun(lambda pace: work(pace=pace), None)

    def _compared(self, request: Request, preview: Preview, *, by: str, said: str = "") -> Response:
        """Return the page of the new value.

        Args:
            said: why it is shown again, as a 409.
        """
        plan = preview.plan
        request_id, value = _only_id(plan), _value_of(plan)
        text, status = editable(value), 409 if said else 200
        taken = {UNKNOWN: plan.takes_unknown, AGAIN: plan.sends_again}
        boxes = [name for name, is_taken in taken.items() if is_taken]
        facts: dict[str, Any] = {"left": preview.left, "is_compared": True, "boxes": boxes}
        facts["dlq"] = next(iter(plan.dlqs), "")
        if _NO_JSON in preview.left:
            facts["fault"] = json_fault(value)
        if preview.first:
            try:
                was = editable(preview.first[0].value)
            except NotEditable as error:
                raise HTTPException(409, str(error)) from error
            note_look(self._settings, request_id, by=by)
            differ = changes(was, text)
            facts |= {"changes": differ, "later": preview.later}
            if differ:
                dlqs = (word for one in plan.dlqs for word in ("--dlq", one))
                words = ("onceward-dlq", "redrive", *dlqs, *(f"--{name}" for name in boxes))
                words = (*words, *value_words(value), *self._config)
                facts |= {
                    "sealed": self._previews.sealed(preview),
                    "needs": preview.needs,
                    "command": pasted(words, request_id),
                }
        return self._shown(request, request_id, text, said=said, status=status, **facts)

    def _shown(self, request: Request, request_id: str, text: str | None, **facts: Any) -> Response:
        given = {"request_id": request_id, "text": text, **facts}
        return self._page(request, "edit", page="letters", **_BLANK | given)


def note_look(settings: Settings, request_id: str, *, by: str) -> None:
    """Record that a person is shown the value of a request, before it is shown."""
    with closing(PersonDecisions.from_settings(settings)) as decisions:
        decisions.look(request_id, by=by)


def _only_id(plan: RedrivePlan) -> str:
    (request_id,) = plan.filter.ids
    return request_id


def _value_of(plan: RedrivePlan) -> bytes:
    assert isinstance(plan.setting, WholeValue) and plan.setting.value is not None
    return plan.setting.value
