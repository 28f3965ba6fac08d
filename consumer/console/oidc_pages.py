"""The two pages of a login at a provider: the way there, and the way back.

Another site cannot log a browser in as somebody else: the way back counts in the browser alone that
went there, by a cookie which that page has set. It is `Lax`, since the browser comes from another
site, and the cookie of a login is `Strict`: so the way back ends on a page of the console that
leads on, and not in a redirection, which would still come from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from consumer.console.entrance import Entrance
from consumer.console.guard import AsyncPage
from consumer.console.oidc import BegunLogin, OidcClient, OidcRefused
from consumer.console.paths import OIDC, OIDC_BACK, SEE_OTHER, within
from consumer.console.rendering import Page, Templates
from feedback.settings.sections import ConsoleSection

# A person looks for a second factor meanwhile.
MOST_S = 600
# Each waits for the provider in a thread.
AT_ONCE = 4
# A browser drops a cookie of more than 4 KB.
LONGEST_NEXT = 2000


class OidcPages:
    """Logs people in as a provider names them; any thread may call it."""

    def __init__(self, section: ConsoleSection, entrance: Entrance, templates: Templates) -> None:
        self._section = section
        self._entrance = entrance
        self._templates = templates
        self._client = OidcClient(section)
        self._cookie = entrance.cookie("oidc")
        self._kept = URLSafeTimedSerializer(entrance.secret, salt="onceward.console.oidc")
        self._room = BoundedSemaphore(AT_ONCE)

    def routes(self, endpoint: Callable[[Page], AsyncPage]) -> list[BaseRoute]:
        """Return the two pages.

        Args:
            endpoint: lets threads of logins answer with a page.
        """
        return [Route(OIDC, endpoint(self.begin)), Route(OIDC_BACK, endpoint(self.end))]

    def begin(self, request: Request) -> Response:
        """Lead the browser to the provider."""
        where = _short(within(request.query_params.get("next", "")))
        request.state.login_for = where
        with self._at_once():
            url, begun = self._client.begin(self._callback(request))
        answer = RedirectResponse(url, SEE_OTHER)
        answer.set_cookie(
            self._cookie,
            self._kept.dumps([*begun, where]),
            max_age=MOST_S,
            secure=bool(self._section.url),
            httponly=True,
            samesite="lax",
        )
        return answer

    def end(self, request: Request) -> Response:
        """Begin a login for the person with whom the browser comes back."""
        request.state.login_for = "/"
        try:
            *words, where = self._kept.loads(request.cookies.get(self._cookie, ""), max_age=MOST_S)
        except BadSignature:
            raise HTTPException(403, "this login took too long, or began elsewhere") from None
        request.state.login_for = where
        try:
            with self._at_once():
                name = self._client.end(
                    self._callback(request), dict(request.query_params), BegunLogin(*words)
                )
        except OidcRefused as error:
            self._entrance.refuse(request)
            raise HTTPException(403, str(error)) from error
        self._entrance.welcome(request, name)
        answer = self._templates.page(request, "logged_in", page=None, where=where)
        answer.delete_cookie(
            self._cookie, secure=bool(self._section.url), httponly=True, samesite="lax"
        )
        return answer

    def _callback(self, request: Request) -> str:
        # The name of the host is one of ours: see `app.HOSTS`.
        here = self._section.url.removesuffix("/") or f"http://{request.headers['host']}"
        return f"{here}{OIDC_BACK}"

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        if not self._room.acquire(blocking=False):
            raise HTTPException(503, "others log in just now: try again in a moment")
        try:
            yield
        finally:
            self._room.release()


def _short(where: str) -> str:
    return where if len(where) <= LONGEST_NEXT else "/"
