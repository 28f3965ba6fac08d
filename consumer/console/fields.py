"""The fields of forms; each that is wrong is a sentence for its person."""

from __future__ import annotations

from math import inf

from starlette.exceptions import HTTPException

from consumer.console.entrance import OLD_FORM, OLD_PAGE, Form
from consumer.console.previews import ConfirmedPreview, Previews
from feedback.errors import InvalidMessage, SettingsError
from feedback.records.envelope import check_request_id

LONGEST_REASON = 1000
# A person types so many characters of the end of an id, and so looks at it.
LAST = 4
# As for `onceward-dlq redrive --rate`.
LOWEST_RATE = 0.1


def field_of(form: Form, name: str) -> str | None:
    """Return a field without the blanks around it; None for an empty one."""
    return form.get(name, "").strip() or None


def request_of(form: Form) -> str:
    """Return the id of the request that it is about."""
    try:
        return check_request_id(form.get("request_id", ""))
    except InvalidMessage as error:
        raise HTTPException(400, str(error)) from error


def redrive_of(form: Form) -> str:
    """Return the id of the redrive that it is about."""
    redrive_id = form.get("redrive_id", "")
    if not redrive_id:
        raise HTTPException(400, "say which redrive")
    return redrive_id


def reason_of(form: Form) -> str:
    """Return why it is done."""
    said = form.get("because", "").strip()
    if not 0 < len(said) <= LONGEST_REASON:
        raise HTTPException(400, f"say why, in 1 to {LONGEST_REASON} characters: it is recorded")
    return said


def require_last(form: Form, request_id: str) -> None:
    """Return when the person has typed the end of an id."""
    if form.get("last", "").strip() != request_id[-LAST:]:
        raise HTTPException(400, f"those are not the last {LAST} characters of {request_id}")


def rate_of(form: Form) -> float | None:
    """Return how many letters a second are sent at most; None for as fast as it goes."""
    said = field_of(form, "rate")
    try:
        rate = None if said is None else float(said)
    except ValueError:
        rate = 0.0
    if rate is not None and not LOWEST_RATE <= rate < inf:
        raise HTTPException(400, f"letters a second are a number from {LOWEST_RATE} on")
    return rate


def seen_number(form: Form, name: str) -> int:
    """Return which doubt, or which pause, the person has seen."""
    given = form.get(name)
    if given is None:
        raise HTTPException(400, OLD_PAGE)
    if not is_number(given):
        raise HTTPException(400, OLD_FORM)
    return int(given)


def is_number(text: str) -> bool:
    """Whether a text of a browser is a number that a database takes."""
    return text.isascii() and text.isdigit() and len(text) < 19


def confirmed_of(previews: Previews, form: Form, kind: str) -> ConfirmedPreview:
    """Return the preview that a form confirms.

    Raises:
        HTTPException: this console has not made it, or long ago, or for another action.
    """
    try:
        return previews.opened(form.get("preview", ""), kind)
    except SettingsError as error:
        raise HTTPException(400, str(error)) from error
