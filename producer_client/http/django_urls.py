"""The front door's pages as URL patterns of Django: `pip install 'onceward[django]'`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import URLPattern, path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods
from prometheus_client import CollectorRegistry

from feedback.settings.settings import Settings
from producer_client.http.callers import Caller
from producer_client.http.pages import PAGES, STREAMED, PageAt
from producer_client.http.threads import PagesForThreads, ThreadStream

View = Callable[..., HttpResponseBase]


def django_urls(
    settings: Settings | Path | str | None,
    caller_of: Callable[[HttpRequest], Caller],
    registry: CollectorRegistry | None = None,
) -> list[URLPattern]:
    """Return the front door's pages, for `urlpatterns` or `include`.

    Args:
        settings: as for `Client`.
        caller_of: returns the caller of a request, or raises `NotAuthenticated`.
        registry: the application's metrics of Prometheus, to which the front door's are added.

    Raises:
        SettingsError, SchemaError: as for `Client`; or a topic's schema cannot be used.
    """
    return urls_of(PagesForThreads(settings, registry), caller_of)


def urls_of(pages: PagesForThreads, caller_of: Callable[[HttpRequest], Caller]) -> list[URLPattern]:
    """Return these pages as URL patterns."""

    def view(at: PageAt) -> View:
        methods = [at.method, "HEAD"] if at.method == "GET" else [at.method]

        def answer(request: HttpRequest, **named: str) -> HttpResponseBase:
            found = pages.answer(
                at,
                headers=request.headers,
                query=request.GET.dict(),
                path=named,
                full_path=request.path,
                address=request.META.get("REMOTE_ADDR", ""),
                caller_of=lambda: caller_of(request),
                read=request.read,
            )
            if isinstance(found, ThreadStream):
                return _streamed(request, found, pages.stream_s)
            response = HttpResponse(found.body, status=found.status, headers=dict(found.headers))
            if "Content-Type" not in found.headers:
                del response["Content-Type"]
            return response

        # Callers are known by their headers, never by a cookie alone: see the how-to page.
        taken: View = csrf_exempt(require_http_methods(methods)(answer))
        return taken

    return [path(_rule(at), view(at), name=f"onceward-{at.name}") for at in PAGES]


def _rule(at: PageAt) -> str:
    return at.path.removeprefix("/").replace("{", "<str:").replace("}", ">")


def _streamed(request: HttpRequest, stream: ThreadStream, most_s: float) -> HttpResponseBase:
    # A stream in a loop holds no thread.
    is_async = isinstance(request, ASGIRequest)
    parts = stream.for_loop() if is_async else stream.for_thread(most_s=most_s)
    return StreamingHttpResponse(parts, headers=STREAMED)
