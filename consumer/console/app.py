"""The console as a Starlette application: its hosts, the headers of each answer, its faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from itertools import chain

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consumer.console.acts import ConsoleActs
from consumer.console.entrance import Entrance
from consumer.console.guard import AsyncPage, PageGuard
from consumer.console.live import LiveStreams
from consumer.console.pages import ConsolePages
from consumer.console.paths import LOGIN, LOGOUT
from consumer.console.people import NotAllowed
from consumer.console.previews import Previews
from consumer.console.redrive_pages import RedrivePages
from consumer.console.redrives import BackgroundRedrives
from consumer.console.rendering import Templates
from consumer.console.value_edits import ValueEdits
from feedback.errors import ExitCode, NotAvailable, OncewardError
from feedback.logs import EventLog
from feedback.settings.sections import ConsoleSection
from feedback.settings.settings import Settings
from feedback.sql.keeping import IDLE_S, KEPT

log = EventLog("onceward.console")

# A page of another site reaches this server by a name of its own (DNS rebinding).
HOSTS = ("127.0.0.1", "localhost", "::1", "[::1]")
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'"
)
# Those that change while a person looks at them. Not one where a click confirms what was seen: it
# would be another thing by then, or another row's button.
LIVE = ("/", "/workers", "/redrives/{redrive_id}")
HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # With none at all a browser does not say where a form of ours comes from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class GuardedHeaders:
    """Adds `HEADERS` to each answer that does not set its own."""

    def __init__(self, within: ASGIApp) -> None:
        self._within = within

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the headers."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] += [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.lower().encode() not in there
                ]
            await send(message)

        await self._within(scope, receive, guarded)


def app(
    settings: Settings,
    ending: asyncio.Event | None = None,
    *,
    file: str | None = None,
    port: int = 0,
) -> ASGIApp:
    """Return the console of a group.

    Args:
        ending: set when the process is to end, which ends the streams.
        file: of the settings, which the commands on the pages name; None where the environment
            alone has them.
        port: see `Entrance`.

    Raises:
        NotAvailable, SettingsError: see `Entrance`.
    """
    templates = Templates(settings.kafka.group, file)
    entrance = Entrance(settings.console, settings.kafka.group, port=port)
    streams = LiveStreams(ending or asyncio.Event())
    guard = PageGuard(entrance, templates, streams)
    pages = ConsolePages(settings, templates, file=file, people_fault=lambda: entrance.people_fault)
    redrives, previews = BackgroundRedrives(), Previews(settings)
    redrive_pages = RedrivePages(settings, templates, redrives=redrives, previews=previews)
    edits = ValueEdits(settings, templates, previews=previews, pages=redrive_pages, file=file)
    acts = ConsoleActs(
        settings,
        redrives,
        previews,
        pages=redrive_pages,
        edits=edits,
        show=pages.with_payload,
    )

    @asynccontextmanager
    async def lifespan(served: Starlette) -> AsyncIterator[None]:
        with KEPT.keeping():
            idle = asyncio.create_task(_close_idle())
            yield
            idle.cancel()
            guard.close()
            streams.close()
            pages.close()
            redrives.close()

    looks = chain(pages.routes(), redrive_pages.routes())
    served = Starlette(
        routes=[
            Route("/console.css", _file("console.css", "text/css")),
            Route("/brush.js", _file("brush.js", "text/javascript")),
            Route("/console.js", _file("console.js", "text/javascript")),
            Route(LOGIN, guard.login_page),
            Route(LOGIN, guard.login, methods=["POST"]),
            Route(LOGOUT, guard.logout, methods=["POST"]),
            *_oidc(settings.console, entrance, templates, guard),
            Route("/act/{act}", guard.acts(acts.carry_out), methods=["POST"]),
            *(Route(path, guard.looks(page, is_live=path in LIVE)) for path, page in looks),
        ],
        middleware=_middleware(settings.console, entrance),
        exception_handlers=dict.fromkeys((*_KNOWN, Exception), _failing(templates)),
        lifespan=lifespan,
    )
    # Around it: a middleware is not asked about the answer to a fault of ours.
    return GuardedHeaders(served)


async def _close_idle() -> None:
    while True:
        await asyncio.sleep(IDLE_S)
        try:
            KEPT.close_idle()
        except Exception:
            # Nobody awaits this task: it would end unseen, and connections would stay open.
            log.exception("idle.failed")


def _middleware(section: ConsoleSection, entrance: Entrance) -> list[Middleware]:
    hosts = [*HOSTS, *filter(None, [section.host.partition(":")[0]])]
    return [
        Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
        entrance.sessions(),
    ]


def _oidc(
    section: ConsoleSection, entrance: Entrance, templates: Templates, guard: PageGuard
) -> Sequence[BaseRoute]:
    if not section.oidc_issuer:
        return ()
    try:
        from consumer.console.oidc_pages import OidcPages
    except ModuleNotFoundError as error:
        needed = "pip install 'onceward[oidc]'"
        raise NotAvailable(f"[console] oidc_issuer needs {error.name}: {needed}") from error
    return OidcPages(section, entrance, templates).routes(guard.logs_in)


# Files and faults need none of the threads in which pages wait for servers: Starlette calls
# coroutines in its loop, and functions in those threads.
def _file(name: str, media_type: str) -> AsyncPage:
    content = resources.files(__package__).joinpath(name).read_bytes()

    async def file(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return file


def _failing(templates: Templates) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def failed(request: Request, error: Exception) -> Response:
        code, said = _fault(request, error)
        # Where a server has not answered, an action may have been done all the same.
        acted = "Look before you try again" if code >= 500 else "Nothing was done"
        heading = acted if request.method == "POST" else _HEADINGS.get(code, _NOT_NOW)
        # Of a login at a provider that did not end well: where it would have led.
        login_for = getattr(request.state, "login_for", None)
        if login_for is not None:
            heading = "Nobody was logged in"
        was_sent = request.method == "POST" and code < 500
        facts = {"said": said, "code": code, "heading": heading, "was_sent": was_sent}
        facts["login_for"] = login_for
        return templates.page(request, "fault", status=code, page=None, **facts)

    return failed


def _fault(request: Request, error: Exception) -> tuple[int, str]:
    """Return the status and the sentence of a fault; log those that nobody else knows."""
    if isinstance(error, HTTPException):
        return error.status_code, error.detail
    if isinstance(error, NotAllowed):
        log.warning("console.refused", by=request.state.person.name, path=request.url.path)
        return 403, str(error)
    if isinstance(error, OncewardError):
        return 409 if error.exit_code is ExitCode.BAD_ANSWER else 503, str(error)
    log.exception("page.failed", error, path=request.url.path)
    return 500, "a fault of ours: its stack is in the log of the console"


_KNOWN = (HTTPException, NotAllowed, OncewardError)
_NOT_NOW = "This cannot be shown now"
_HEADINGS = {403: "This is not for you", 404: "There is no such page"}
