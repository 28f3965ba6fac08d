"""The guard before each page: the person is known, and a form comes from a page of ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from consumer.console.entrance import Entrance, Form, form_of
from consumer.console.live import LiveStreams, asks_for_events
from consumer.console.paths import LOGIN, SEE_OTHER, within
from consumer.console.people import Person
from consumer.console.rendering import Page, Templates

FormPage = Callable[[Request, Form, Person], Response]


class PageGuard:
    """Lets known persons in; any thread may call it."""

    def __init__(self, entrance: Entrance, templates: Templates, streams: LiveStreams) -> None:
        self._entrance = entrance
        self._templates = templates
        self._streams = streams

    def looks(self, page: Page, *, is_live: bool = False) -> Page:
        """Return the page for known persons; others are led to the login.

        Args:
            is_live: it stays up to date, see `live`; not where an address asks it for more, such as
                for the warning that a person confirms.
        """

        def asked(request: Request) -> Response:
            person = self._entrance.person_of(request)
            if person is None:
                # As it was sent: decoded, an id in it would be steps of a path.
                path = request.scope["raw_path"].decode("latin-1")
                where = path + (f"?{request.url.query}" if request.url.query else "")
                return RedirectResponse(f"{LOGIN}?next={quote(where, safe='')}", SEE_OTHER)
            self._welcome(request, person)
            request.state.is_live = is_live and not request.query_params
            if request.state.is_live and asks_for_events(request):
                request.state.is_part = True
                return self._streams.of(partial(self._look, page, request))
            return page(request)

        return asked

    def acts(self, act: FormPage) -> Callable[[Request], Awaitable[Response]]:
        """Return the page that takes a form, from a page of ours and a known person."""

        def asked(request: Request, form: Form) -> Response:
            person = self._entrance.person_of(request)
            if person is None or not self._entrance.asks:
                raise HTTPException(403, "log in first: nobody knows who you are")
            self._welcome(request, person)
            self._entrance.require_own(request, form)
            return act(request, form, person)

        async def endpoint(request: Request) -> Response:
            form = await form_of(request)
            return await run_in_threadpool(asked, request, form)

        return endpoint

    def login_page(self, request: Request) -> Response:
        """Show the form to log in; a person that is known already goes on."""
        return self._login_page(request)

    async def login(self, request: Request) -> Response:
        """Take name and password."""
        form = await form_of(request)
        return await run_in_threadpool(self._login, request, form)

    def logout(self, request: Request, form: Form, person: Person) -> Response:
        """End the login of this browser."""
        self._entrance.logout(request)
        return RedirectResponse(LOGIN, SEE_OTHER)

    def _login(self, request: Request, form: Form) -> Response:
        if not self._entrance.asks:
            raise HTTPException(403, "this console asks nobody who they are")
        self._entrance.require_own(request, form)
        if self._entrance.login(request, form):
            return RedirectResponse(within(form.get("next", "")), SEE_OTHER)
        return self._login_page(request, failed=True)

    def _login_page(self, request: Request, *, failed: bool = False) -> Response:
        where = within(request.query_params.get("next", ""))
        if not failed and self._entrance.person_of(request) is not None:
            return RedirectResponse(where, SEE_OTHER)
        return self._templates.page(
            request,
            "login",
            status=403 if failed else 200,
            page=None,
            failed=failed,
            where=where,
            token=self._entrance.token_of(request),
            provider=self._entrance.provider,
            # Behind a link of another site a browser hides the cookie, once.
            is_from_elsewhere=request.headers.get("sec-fetch-site") == "cross-site",
        )

    def _look(self, page: Page, request: Request) -> str | None:
        person = self._entrance.person_of(request)
        if person is None:
            return None
        self._welcome(request, person)
        return bytes(page(request).body).decode()

    def _welcome(self, request: Request, person: Person) -> None:
        request.state.person = person
        request.state.token = self._entrance.token_of(request) if self._entrance.asks else ""
