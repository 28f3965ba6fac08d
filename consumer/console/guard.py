"""The guard before each page: the person is known, and a form comes from a page of ours.

It has threads of its own, and others for logins: pages wait in theirs for servers that are slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from consumer.console.entrance import Entrance, Form, form_of
from consumer.console.live import LiveStreams, asks_for_events
from consumer.console.logins import MOST_LOGINS
from consumer.console.paths import LOGIN, SEE_OTHER, within
from consumer.console.people import Person
from consumer.console.rendering import Page, Templates

# They read the file of people.
THREADS = 4
# Logins that wait for their turn or for a provider, and others that are refused meanwhile.
LOGIN_THREADS = MOST_LOGINS + 8

T = TypeVar("T")
FormPage = Callable[[Request, Form, Person], Response]
AsyncPage = Callable[[Request], Awaitable[Response]]


class PageGuard:
    """Lets known persons in; any thread may call it."""

    def __init__(self, entrance: Entrance, templates: Templates, streams: LiveStreams) -> None:
        self._entrance = entrance
        self._templates = templates
        self._streams = streams
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="onceward-guard")
        self._login_threads = ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="onceward-login")

    def close(self) -> None:
        """Let nobody in any more; do not wait for logins at work."""
        for one in (self._threads, self._login_threads):
            one.shutdown(wait=False, cancel_futures=True)

    def looks(self, page: Page, *, is_live: bool = False) -> AsyncPage:
        """Return the page for known persons; others are led to the login.

        Args:
            is_live: it stays up to date, see `live`; not where an address asks it for more, such as
                for the warning that a person confirms.
        """

        def looked(request: Request) -> Response:
            # It may have waited for a thread: whoever is nobody any more by now sees nothing.
            return _to_login(request) if self._known(request) is None else page(request)

        async def asked(request: Request) -> Response:
            person = await _in(self._threads, self._known, request)
            if person is None:
                return _to_login(request)
            request.state.is_live = is_live and not request.query_params
            if request.state.is_live and asks_for_events(request):
                request.state.is_part = True
                return self._streams.of(partial(self._look, page, request), whose=person.name)
            return await run_in_threadpool(looked, request)

        return asked

    def acts(self, act: FormPage) -> AsyncPage:
        """Return the page that takes a form, from a page of ours and a known person."""

        def acted(request: Request, form: Form) -> Response:
            # It may have waited for a thread: whoever is nobody any more by now does nothing.
            return act(request, form, self._sender(request, form))

        async def asked(request: Request) -> Response:
            form = await form_of(request)
            await _in(self._threads, self._sender, request, form)
            return await run_in_threadpool(acted, request, form)

        return asked

    def logs_in(self, page: Page) -> AsyncPage:
        """Return a page that a provider or a password keeps waiting."""

        async def asked(request: Request) -> Response:
            return await _in(self._login_threads, page, request)

        return asked

    async def login_page(self, request: Request) -> Response:
        """Show the form to log in; a person that is known already goes on."""
        return await _in(self._threads, self._login_page, request)

    async def login(self, request: Request) -> Response:
        """Take name and password."""
        form = await form_of(request)
        return await _in(self._login_threads, self._login, request, form)

    async def logout(self, request: Request) -> Response:
        """End the login of this browser."""
        form = await form_of(request)
        return await _in(self._threads, self._logout, request, form)

    def _login(self, request: Request, form: Form) -> Response:
        if not self._entrance.asks:
            raise HTTPException(403, "this console asks nobody who they are")
        self._entrance.require_own(request, form)
        if self._entrance.login(request, form):
            return RedirectResponse(within(form.get("next", "")), SEE_OTHER)
        return self._login_page(request, failed=True)

    def _logout(self, request: Request, form: Form) -> Response:
        self._sender(request, form)
        self._entrance.logout(request)
        return RedirectResponse(LOGIN, SEE_OTHER)

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

    def _sender(self, request: Request, form: Form) -> Person:
        person = self._known(request)
        if person is None or not self._entrance.asks:
            raise HTTPException(403, "log in first: nobody knows who you are")
        self._entrance.require_own(request, form)
        return person

    def _look(self, page: Page, request: Request) -> str | None:
        if self._known(request) is None:
            return None
        return bytes(page(request).body).decode()

    def _known(self, request: Request) -> Person | None:
        person = self._entrance.person_of(request)
        if person is not None:
            request.state.person = person
            request.state.token = self._entrance.token_of(request) if self._entrance.asks else ""
        return person


def _to_login(request: Request) -> Response:
    # As it was sent: decoded, an id in it would be steps of a path.
    path = request.scope["raw_path"].decode("latin-1")
    where = path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{LOGIN}?next={quote(where, safe='')}", SEE_OTHER)


async def _in(threads: ThreadPoolExecutor, function: Callable[..., T], *given: object) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, function, *given)
