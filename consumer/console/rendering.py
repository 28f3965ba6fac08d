"""The templates: each text is escaped and made printable."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from consumer.console.paths import request_address
from consumer.console.people import ROLES_OF, Person
from consumer.dlq.dates import instant, moment
from consumer.dlq.decoded import MESSAGE_LIMIT, decoded
from consumer.dlq.letter_state import ours_in_words
from consumer.ops.workers.ages import age
from feedback import __version__
from feedback.clock import epoch_ms
from feedback.console.plurals import counted
from feedback.console.printable import printable

KEY_LIMIT = 100

# The address below `/`, the word in the list of pages, and the file of the template.
MENU = (
    ("", "Now"),
    ("workers", "Workers"),
    ("requests", "Requests"),
    ("doubts", "Doubts"),
    ("letters", "Dead letters"),
    ("topics", "Topics"),
    ("actions", "Actions"),
    ("audit", "Audit"),
)

Page = Callable[[Request], Response]


class Templates:
    """Fills templates for one group.

    Args:
        group: its name.
        file: of the settings, which each command names: without it a shell may find another
            group's. None where the environment alone has them.
    """

    def __init__(self, group: str, file: str | None) -> None:
        self._group = group
        self._environment = _environment()
        self._environment.globals["file"] = file
        named = "" if file is None else f" --config {shlex.quote(file)}"
        self._environment.filters["command"] = lambda text: f"{text}{named}"

    def page(
        self, request: Request, name: str, *, page: str | None, status: int = 200, **facts: Any
    ) -> Response:
        """Return a page for the person of a request; without one it has no list of pages.

        Args:
            name: of the template.
            page: below `/`; None for one that the list of pages does not have.
        """
        person: Person | None = getattr(request.state, "person", None)
        roles = person.roles if person is not None else frozenset()
        shared = {
            "layout": "content.html" if is_part(request) else "base.html",
            "is_live": getattr(request.state, "is_live", False),
            "menu": MENU if person is not None else (),
            "page": page,
            "group": self._group,
            "version": __version__,
            "now": epoch_ms(),
            "person": person.name if person is not None else "",
            "may": lambda act: ROLES_OF[act] <= roles,
            "token": getattr(request.state, "token", ""),
        }
        text = self._environment.get_template(f"{name}.html").render(**shared | facts)
        return HTMLResponse(text, status)


def is_part(request: Request) -> bool:
    """Whether the content alone is asked for, by the stream of an open page."""
    return bool(getattr(request.state, "is_part", False))


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__ or ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {
        "request_address": request_address,
        "moment": moment,
        "instant": instant,
        "age": age,
        "number": lambda one: f"{one:,}",
        "rate": rate,
        "duration": duration,
        "counted": counted,
        "ours": ours_in_words,
        "shell": shlex.quote,
        "lines": lambda text: escape(printable(text, also="\n")),
        # Of a text that a form keeps: see `editable`.
        "typed": lambda text: escape(printable(text, also="\n\t")),
        "short": lambda text: text if text is None else text[:MESSAGE_LIMIT],
        "key": lambda raw: "" if raw is None else decoded(raw, limit=KEY_LIMIT).text,
    }
    return made


def rate(per_s: float) -> str:
    """Return a number of requests a second for a person.

    >>> [rate(one) for one in (0, 0.0031, 1.25, 9.96, 99.7, 4606.2)]
    ['0', '0.0031', '1.2', '10', '100', '4,606']
    """
    return f"{per_s:,.0f}" if per_s >= 9.95 else f"{per_s:.2g}"


def duration(seconds: float | None) -> str:
    """Return a duration for a person; nothing for None.

    >>> [duration(one) for one in (0.0172, 0.172, 0.9996, 1.7, 59.7, 150, 6000, None)]
    ['17 ms', '172 ms', '1 s', '1.7 s', '60 s', '2.5 min', '100 min', '']
    """
    if seconds is None:
        return ""
    if seconds < 0.9995:
        return f"{rate(seconds * 1000)} ms"
    return f"{rate(seconds)} s" if seconds < 99.5 else f"{rate(seconds / 60)} min"


def _shown(value: Any) -> Any:
    # Markup, a subclass, was made of texts that came by here.
    return printable(value) if type(value) is str else "" if value is None else value
